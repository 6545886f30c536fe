"""How often Python looks for cycles of garbage: seldom, in a process that runs for long."""

import gc

# The default is every 700 objects: a relay makes that many in 30 messages and spends a quarter of
# its time looking through what never goes away. 10,000 hold a few MB.
OBJECTS = 10_000


def collect_seldom() -> None:
    """For once everything is loaded: what is there by now lives to the end and is not looked at."""
    gc.freeze()
    gc.set_threshold(OBJECTS)
