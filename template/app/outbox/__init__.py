"""The guarantee: events, the messages they owe, and every write to them.

`message.py` has the words, `policy.py` the decisions (pure), `publish.py` the caller's half,
`store.py` the relay's half. Nothing here knows HTTP.
"""
