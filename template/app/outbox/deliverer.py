"""The port through which the relay delivers. A new kind of destination implements it.

Invariant: `deliver` runs with no transaction open and never raises for what the receiver did; it
answers an `Outcome`. `tests/outbox/deliverer_contract.py` is the test that every kind passes.
Where to change what: a new kind is `app/<kind>/` with such a class and one line in `wiring.py`.
"""

from typing import Protocol

from app.outbox.message import Claim, Outcome
from app.outbox.policy import RetryPolicy


class Deliverer(Protocol):
    """One kind of destination: `webhook`, `handler`."""

    async def deliver(self, claim: Claim) -> Outcome:
        """Make one attempt. Never raises for what the receiver did."""
        ...

    def policy(self, destination: str) -> RetryPolicy:
        """The retry policy of a destination that `deliver` has just answered for."""
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...
