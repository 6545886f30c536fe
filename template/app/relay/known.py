"""The destinations and owners that the relay has in memory."""

from collections.abc import Iterable

from app.relay.lane import Held, Lane
from app.relay.owner import Owner, Owners
from app.relay.speed import Speed


class Known:
    """A lane for each destination that has, or lately had, messages here."""

    def __init__(self) -> None:
        self.lanes: dict[str, Lane] = {}
        self._owners = Owners()

    def owner(self, destination: str) -> Owner:
        """Whose it is, as far as is known."""
        lane = self.lanes.get(destination)
        return self._owners.of(destination) if lane is None else lane.owner

    def quiet(self, destination: str) -> bool:
        """Whether nothing of it is in memory."""
        lane = self.lanes.get(destination)
        return lane is None or not lane.held

    def learn(self, destination: str, tenant: str) -> bool:
        """A message of it has that tenant; whether that tells its owner anew."""
        return self._owners.learn(destination, tenant)

    def new(self, destination: str, now: float, limit: int) -> Lane:
        """A lane for it; its owner has been learned."""
        lane = Lane(destination, self._owners.of(destination), Speed(now), limit)
        self.lanes[destination] = lane
        return lane

    def tidy(self, hungry: dict[str, Owner]) -> None:
        """Forget idle destinations, and floors, below which may be late commits."""
        for lane in list(self.lanes.values()):
            lane.floor = None
            if not lane.held and lane.destination not in hungry:
                del self.lanes[lane.destination]
        self._owners.tidy((*hungry.values(), *(lane.owner for lane in self.lanes.values())))

    def withdraw(self) -> Iterable[Held]:
        """Everything that waits in memory; it does no more."""
        for lane in self.lanes.values():
            lane.owner.held -= len(lane.waiting)
            yield from lane.waiting
            lane.waiting.clear()
