"""One destination in the relay's memory: what it holds, how fast it is."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct

from app.outbox.message import Claim
from app.outbox.store import Wanted

AHEAD_SECONDS = 0.05  # how much work may wait in memory
WINDOW_SECONDS = 0.005  # over which the speed of a destination is measured


class Held(Struct, eq=False, gc=False):
    """A claim in this process. `leased_at`: monotonic time before the lease was last written."""

    claim: Claim
    leased_at: float
    taken_over: bool = False


class Speed:
    """Messages a second, lately: rises at once, falls by half per window."""

    __slots__ = ("_done", "_since", "rate")

    def __init__(self, now: float) -> None:
        self.rate = 0.0
        self._done = 0
        self._since = now

    def count(self) -> None:
        """One more is done."""
        self._done += 1

    def ahead(self, now: float, most: int) -> int:
        """How many may wait in memory."""
        elapsed = now - self._since
        if elapsed >= WINDOW_SECONDS:
            self.rate = max(self._done / elapsed, self.rate / 2)
            self._done, self._since = 0, now
        return min(most, int(self.rate * AHEAD_SECONDS))


@dataclass(slots=True, eq=False)
class Lane:
    """One destination."""

    destination: str
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
