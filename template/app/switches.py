'''Behaviour that a newer template changes: it arrives here switched off, and waits for you.

An upgrade brings code, never another treatment of your messages. `scaffolder status` lists the
switches that you have not taken yet; take one by writing True, when you know that your
receivers are ready for it. A later major version removes the switch, and the new way remains.

A switch is a name, False, and a sentence that starts with the version it came with:

    PARK_ON_451 = False
    """0.2.0: an answer of 451 parks a message at once instead of retrying it."""

Read it where the behaviour branches: `if switches.PARK_ON_451:`. There is none yet.
'''
