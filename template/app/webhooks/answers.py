"""What an outcome says about the endpoint, apart from the message. Pure.

An endpoint that refuses one message with a 4xx is alive: that counts as a call, not as a failure of
the endpoint. `breaker.py` and `pace.py` live on this.
"""

from enum import IntEnum

from msgspec import Struct

from app.outbox.message import Delivered, Failed
from app.webhooks.breaker import SLOW_PART

_TRANSIENT = frozenset({408, 425, 429})
_TOO_FAST = frozenset({429, 502, 504})


class News(IntEnum):
    """What an answer changes about its endpoint for all relays; written in this order."""

    CLOSES = 1  # the circuit breaker
    OPENS = 2
    RECOVERS = 3
    FAILS = 4
    DISABLES = 5


class Answer(Struct, frozen=True):
    """One call."""

    failed: bool  # the endpoint's fault, likely to pass
    slow: bool
    slow_down: bool  # it asks for less

    @classmethod
    def of(cls, outcome: Delivered | Failed, seconds: float, timeout_seconds: float) -> "Answer":
        """How an attempt that took so long looks from the endpoint's side."""
        slow = seconds >= SLOW_PART * timeout_seconds
        if isinstance(outcome, Delivered):
            return _SLOW if slow else _GOOD
        status = outcome.response.status_code if outcome.response else 0
        return cls(not status or status >= 500 or status in _TRANSIENT, slow, status in _TOO_FAST)


_GOOD, _SLOW = Answer(False, False, False), Answer(False, True, False)
