"""What one process is doing with one endpoint, and what all relays know of its state.

    Shared   from the row, as of the last read: circuit breaker, failing since, owner
    Traffic  in this process: requests in flight, pace, the window of recent calls

Pure, times are monotonic. `held_back` says why a message has to wait, `room` says the same to the
relay before it claims. Invariant: what `held_back` refuses has consumed nothing.
"""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from msgspec import Struct

from app.outbox.deliverer import NO_LIMIT, Room
from app.outbox.message import Deferred
from app.webhooks.breaker import Window
from app.webhooks.pace import Pace

BUSY_SECONDS = 1.0


class Limits(Struct, frozen=True):
    """An endpoint's own limits; None: none."""

    rate_per_second: float | None = None
    max_in_flight: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is one, so that one relay alone sends to the endpoint."""
        return self.rate_per_second is not None or self.max_in_flight is not None


class Shared(Struct, frozen=True):
    """The state of an endpoint in the database; moments are monotonic times of this process."""

    open_until: float | None = None  # the circuit breaker; None: closed
    failing_at: float | None = None  # failing since
    owner: UUID | None = None
    owned_until: float = 0.0


@dataclass(slots=True)
class Traffic:
    """One endpoint in this process."""

    shared: Shared = field(default_factory=Shared)
    changed_at: float = 0.0  # when this process last wrote `shared`
    in_flight: int = 0
    pace: Pace = field(default_factory=Pace)
    window: Window = field(default_factory=Window)
    failing_at: float | None = None  # since then this process has seen nothing but failures
    failures: int = 0  # of these, how many
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # one write of the state at a time

    def start_anew(self) -> None:
        """The endpoint was changed: what was seen before says nothing about it."""
        self.pace, self.window = Pace(), Window()
        self.failing_at, self.failures = None, 0

    def read(self, shared: Shared, read_at: float) -> None:
        """The state as of the database; what this process has written since then stays."""
        if self.changed_at >= read_at:
            return
        if self.shared.failing_at is not None and shared.failing_at is None:
            self.failing_at, self.failures = None, 0  # another relay had a good answer
        self.shared = shared

    def room(self, me: UUID, limits: Limits, now: float) -> Room:
        """What the relay may claim for it."""
        shared = self.shared
        if shared.open_until is not None:
            left = shared.open_until - now
            if left > 0 or self.in_flight:
                return Room(starts=0, seconds=max(left, BUSY_SECONDS))
            return Room(in_flight=1, starts=1)  # the probe
        if limits.any and shared.owner != me and shared.owned_until > now:
            return Room(starts=0, seconds=shared.owned_until - now)
        starts, seconds = self.pace.starts(now, limits.rate_per_second)
        if starts is None and limits.max_in_flight is None:
            return NO_LIMIT
        return Room(limits.max_in_flight, starts, seconds)

    def held_back(self, limits: Limits, now: float) -> tuple[str, Deferred] | None:
        """Why not now: the limit's name and the outcome. Whether it owns the endpoint comes later.

        The rate comes last, because it alone is consumed by asking.
        """
        most, until = limits.max_in_flight, self.shared.open_until
        if most is not None and self.in_flight >= most:
            reason = f"the endpoint takes {most} at once (max_in_flight)"
            return "in_flight", Deferred(reason, BUSY_SECONDS)
        if until is not None and until > now:
            return "breaker", breaker_open(until - now)
        wait = self.pace.start(now, limits.rate_per_second)
        if not wait:
            return None
        rate = self.pace.rate(limits.rate_per_second) or 0.0
        if self.pace.slowed is not None:
            return "slowed", Deferred(f"slowed down to {rate:.3g} a second by its answers", wait)
        return "rate", Deferred(f"the endpoint takes {rate:g} a second (rate_per_second)", wait)


def breaker_open(seconds: float) -> Deferred:
    """The circuit breaker is open."""
    return Deferred("the endpoint's circuit breaker is open", max(seconds, 0.1))
