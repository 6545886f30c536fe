"""One destination in the relay's memory: what it holds, how fast it is."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct

from app.outbox.message import Claim
from app.outbox.store import Wanted
from app.relay.owner import Owner
from app.relay.speed import Speed


class Held(Struct, eq=False, gc=False):
    """A claim in this process. `leased_at`: monotonic time before the lease was last written."""

    claim: Claim
    leased_at: float
    taken_over: bool = False
    began: float = 0.0  # monotonic time at which a sender took it


@dataclass(slots=True, eq=False)
class Lane:
    """One destination."""

    destination: str
    owner: Owner
    speed: Speed
    limit: int  # in flight at once
    waiting: deque[Held] = field(default_factory=deque)
    in_flight: int = 0
    ahead: int = 0
    ready: bool = False  # among those that may start one
    floor: datetime | None = None

    @property
    def held(self) -> int:
        """How many claims of this destination are in memory."""
        return self.in_flight + len(self.waiting)


class Plan(Struct, frozen=True):
    """What to ask for, and how many messages at most in all."""

    wanted: list[Wanted]
    limit: int
