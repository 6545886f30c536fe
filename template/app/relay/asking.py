"""One plan in the making: what to ask of each destination, and of each owner at most.

More is asked than there is room for, in all and of one owner, because most have less than asked.
"""

from app.outbox.deliverer import Room
from app.outbox.store import Wanted
from app.relay.lane import Lane, Plan
from app.relay.owner import Owner
from app.relay.slots import Slots

OVERASKING = 4  # times the room


class Asking:
    """Collects what is wanted, at most `limit` messages."""

    def __init__(self, now: float, limit: int, slots: Slots, most_ahead: int) -> None:
        self._now, self._limit, self._slots, self._most_ahead = now, limit, slots, most_ahead
        self._rooms: dict[Owner, int] = {}
        self._asked: dict[Owner, int] = {}
        self._all = 0
        self._wanted: list[Wanted] = []

    @property
    def enough(self) -> bool:
        """Whether as much is asked as makes sense."""
        return self._all >= OVERASKING * self._limit

    def may(self, owner: Owner) -> bool:
        """Whether the owner may be asked for more; not once for each of its destinations."""
        room = self._rooms.get(owner)
        if room is None:
            room = owner.room(self._now, self._slots.share, self._most_ahead)
            self._rooms[owner] = room
        return self._asked.get(owner, 0) < OVERASKING * room

    def ask(self, destination: str, owner: Owner, lane: Lane | None, room: Room) -> bool:
        """For as much as the destination has room for; False if that is nothing."""
        most, floor, waiting = self._slots.one(room), None, 0
        slots = most
        if lane is not None:
            lane.limit, lane.ahead = most, lane.speed.ahead(self._now, self._most_ahead)
            slots, floor = most + lane.ahead - lane.held, lane.floor
            waiting = len(lane.waiting)
        if room.starts is not None:
            slots = min(slots, room.starts - waiting)
        slots = min(slots, self._limit)
        if slots <= 0:
            return False
        self._asked[owner] = self._asked.get(owner, 0) + slots
        self._all += slots
        self._wanted.append(Wanted(destination, slots, floor))
        return True

    def plan(self) -> Plan:
        """All that; no more messages than those that are asked have room for."""
        return Plan(self._wanted, min(self._limit, sum(self._rooms[each] for each in self._asked)))
