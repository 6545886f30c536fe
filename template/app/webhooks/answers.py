"""What an outcome says about the endpoint, apart from the message. Pure.

An endpoint that refuses one message with a 4xx is alive: that counts as a call, not as a failure of
the endpoint. `breaker.py` and `pace.py` live on this.
"""

from msgspec import Struct

from app.outbox.message import Delivered, Failed, Outcome
from app.webhooks.breaker import SLOW_PART

_TRANSIENT = frozenset({408, 425, 429})
_TOO_FAST = frozenset({429, 502, 504})


class Answer(Struct, frozen=True):
    """One call."""

    failed: bool  # the endpoint's fault, likely to pass
    slow: bool
    slow_down: bool  # it asks for less

    @classmethod
    def of(cls, outcome: Outcome, seconds: float, timeout_seconds: float) -> "Answer":
        """How an attempt that took so long looks from the endpoint's side."""
        response = outcome.response if isinstance(outcome, Delivered | Failed) else None
        status = response.status_code if response else 0
        failed = isinstance(outcome, Failed) and (
            not status or status >= 500 or status in _TRANSIENT
        )
        slow = seconds >= SLOW_PART * timeout_seconds
        return cls(failed, slow, status in _TOO_FAST)
