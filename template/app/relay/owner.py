"""Whose a destination is: its tenant's, if it is a webhook endpoint, else its own.

Owners take turns where destinations would: a tenant with a thousand slow endpoints has a thousand
destinations that look idle. A webhook endpoint belongs to one tenant for ever, so what is learned
holds. Invariant: each lane and each turn of a destination is with the owner known for it; one that
is not known yet stands alone, and never as an owner that holds nothing: it may be anybody's.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.relay.speed import Speed

if TYPE_CHECKING:
    from app.relay.lane import Lane

OF_TENANTS = "webhook:"
MOST_KNOWN = 100_000  # destinations; one that is forgotten is learned again when it is due


def _speed() -> Speed:
    return Speed(0.0)


@dataclass(slots=True, eq=False)
class Owner:
    """One tenant, or one destination; its turns and starts are kept by `Turns` and `Starts`."""

    known: bool
    speed: Speed = field(default_factory=_speed)
    held: int = 0  # in flight or waiting in memory
    in_flight: int = 0
    again: int = -1  # it was passed over, holding too much: ask when it holds so many
    quiet_turns: OrderedDict[str, None] = field(default_factory=OrderedDict)
    busy_turns: OrderedDict[str, None] = field(default_factory=OrderedDict)
    quiet: "deque[Lane]" = field(default_factory=deque)
    ready: "deque[Lane]" = field(default_factory=deque)
    queued: bool = False  # among those that may start one

    @property
    def fresh(self) -> bool:
        """Whether nothing of it is in memory, for certain."""
        return self.known and not self.held

    @property
    def hungry(self) -> bool:
        """Whether one of its destinations may have messages that are not claimed yet."""
        return bool(self.quiet_turns or self.busy_turns)

    def done(self, lane: "Lane") -> None:
        """A message of that lane is no longer held."""
        self.held -= 1
        self.speed.done += 1
        lane.speed.done += 1

    def room(self, now: float, share: int, most_ahead: int) -> int:
        """How many more it may hold: its share in flight, and what its speed works off."""
        ahead = self.speed.ahead(now, most_ahead)
        room, enough = share + ahead - self.held, ahead // 2
        if room > enough or (room > 0 and self.quiet_turns and self.in_flight < share):
            self.again = -1
            return room
        self.again = share + ahead - enough - 1  # many small claims cost more than waiting
        return 0


class Owners:
    """All owners, and which destinations are known to be whose."""

    def __init__(self) -> None:
        self._tenant_of: dict[str, str] = {}
        self._tenants: dict[str, Owner] = {}
        self._others: dict[str, Owner] = {}

    def of(self, destination: str) -> Owner:
        """Its owner, as far as is known."""
        tenant = self._tenant_of.get(destination)
        owners, name = (self._others, destination) if tenant is None else (self._tenants, tenant)
        owner = owners.get(name)
        if owner is None:
            known = tenant is not None or not destination.startswith(OF_TENANTS)
            owner = owners[name] = Owner(known)
        return owner

    def learn(self, destination: str, tenant: str) -> bool:
        """A message of the destination has that tenant; whether that tells its owner anew."""
        if destination in self._tenant_of or not destination.startswith(OF_TENANTS):
            return False
        if len(self._tenant_of) >= MOST_KNOWN:
            del self._tenant_of[next(iter(self._tenant_of))]
        self._tenant_of[destination] = tenant
        return True

    def tidy(self, used: Iterable[Owner]) -> None:
        """Forget owners that are not in use; not which destinations they own."""
        kept = set(used)
        for owners in (self._tenants, self._others):
            for name in [name for name, owner in owners.items() if owner not in kept]:
                del owners[name]
