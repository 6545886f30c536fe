"""The port through which the relay delivers. A new kind of destination implements it.

Invariant: `deliver` runs with no transaction open and never raises for what the receiver did; it
answers an `Outcome`. `tests/outbox/deliverer_contract.py` is the test that every kind passes.
Where to change what: a new kind is `app/<kind>/` with such a class and one line in `wiring.py`.
"""

import asyncio
from typing import Protocol, runtime_checkable

from msgspec import Struct

from app.outbox.message import Claim, Outcome
from app.outbox.policy import RetryPolicy


class Answered(asyncio.CancelledError):
    """Raised by a `deliver` that is cancelled while the outcome is known already."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


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


class Room(Struct, frozen=True):
    """What a destination lets through at present; None: no limit of its own."""

    in_flight: int | None = None  # at most so many at once
    starts: int | None = None  # at most so many may be started now
    seconds: float = 0.0  # when to ask again, if there are fewer starts than messages


NO_LIMIT = Room()


@runtime_checkable
class Limited(Protocol):
    """A kind whose destinations have limits. `deliver` keeps them, by answering `Deferred`.

    The relay asks first, so that it claims nothing that would only be deferred: a destination at
    its limit costs no statement.
    """

    def room(self, destination: str) -> Room:
        """How much the destination lets through now; quick, from memory."""
        ...
