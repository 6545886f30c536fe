"""What the relay knows of each destination, in memory: what it holds, what may still be due.

Pure bookkeeping, no database, no network: `plan` says what to claim, `add` takes what came, `take`
hands out the next message to send, `done` frees its slot.

Invariants: a destination never has more than its limit in flight; messages wait here only as long
as its own speed needs to bridge one claim (`AHEAD_SECONDS`), so that a slow destination holds
neither leases nor senders that others could use; a destination with nothing in flight goes first;
one that is at a limit of its own (`Room`) is not asked and costs the others nothing.
"""

import asyncio
from collections.abc import Callable, Iterable

from app.outbox.deliverer import NO_LIMIT, Room
from app.outbox.store import Claimed, Wanted
from app.relay.lane import Held, Lane, Plan, Speed
from app.relay.later import Later
from app.relay.starts import Starts
from app.relay.turns import Turns

UNSETTLED_BATCHES = 4  # held in all, outcomes that wait to be written included
OVERASKING = 4  # times the room


class Lanes:
    """All destinations of one relay."""

    def __init__(
        self,
        concurrency: int,
        per_destination: int,
        batch: int,
        room: Callable[[str], Room] = lambda _: NO_LIMIT,
    ) -> None:
        self._concurrency, self._room = concurrency, room
        self._limit = min(per_destination, concurrency)
        self._batch = batch
        self._lanes: dict[str, Lane] = {}
        self._turns = Turns()
        self._starts = Starts()
        self._later = Later()
        self._speed = Speed(0.0)
        self._held = self.stretched = 0  # stretched: slow requests, which don't count
        self._short = False  # the last plan ended because the relay was full
        self.changed = asyncio.Event()  # there may be something to claim

    @property
    def held(self) -> int:
        """How many claims are in memory."""
        return self._held

    @property
    def hungry(self) -> bool:
        """Whether a destination may have messages that are not claimed yet."""
        return bool(self._turns)

    def wake(self, destinations: Iterable[str]) -> None:
        """Something may be due there."""
        for destination in destinations:
            lane = self._lanes.get(destination)
            self._turns.join(destination, quiet=lane is None or not lane.held)
        self.changed.set()

    def wake_at(self, moment: float, destination: str) -> None:
        """Something will be due there at that monotonic time."""
        self._later.add(moment, destination)

    def wake_due(self, now: float) -> float | None:
        """Wake what has become due; the time of the next one."""
        if due := self._later.due(now):
            self.wake(due)
        return self._later.next

    def tidy(self) -> None:
        """Once per poll: forget idle destinations, and floors, below which may be late commits."""
        for lane in list(self._lanes.values()):
            lane.floor = None
            if not lane.held and lane.destination not in self._turns:
                del self._lanes[lane.destination]

    def plan(self, now: float, unsettled: int = 0) -> Plan:
        """What to claim now: from each destination that has room, in turn.

        More is asked than there is room for, because most have less than asked. `unsettled`: all
        claims of this relay that are not settled; bounded, so that a database that is slow to
        settle is not asked for ever more claims.
        """
        self.changed.clear()
        limit = self._at_most(now, unsettled)
        if limit is None:
            return Plan([], 0)
        wanted: list[Wanted] = []
        asked, left = 0, list[str]()
        for destination in self._turns:
            if asked >= OVERASKING * limit:
                self._short = True
                break
            allowed = self._room(destination)
            each = self._wanted(destination, limit, allowed, now)
            if each is not None:
                asked += each.slots
                wanted.append(each)
            elif allowed.starts == 0:
                left.append(destination)
                if self._later.again(now + allowed.seconds, destination):
                    self.changed.set()  # the next time to look may have become an earlier one
        for destination in (*left, *(each.destination for each in wanted)):
            self._turns.leave(destination)
        return Plan(wanted, limit)

    def _at_most(self, now: float, unsettled: int) -> int | None:
        ahead = self._speed.ahead(now, 2 * self._batch)
        room = self._concurrency + self.stretched + ahead - self._held
        self._short = room <= ahead // 2
        if self._short and not (self._turns.quiet and room > 0):
            return None  # many small claims cost more than waiting for room
        unwritten = unsettled - self._concurrency - self.stretched
        return max(0, min(room, self._batch, UNSETTLED_BATCHES * self._batch - unwritten))

    def _wanted(self, destination: str, limit: int, room: Room, now: float) -> Wanted | None:
        lane = self._lanes.get(destination)
        most = self._most(room)
        slots, floor = min(most, limit), None
        if lane is not None:
            lane.limit, lane.ahead = most, lane.speed.ahead(now, 2 * self._batch)
            slots, floor = min(most + lane.ahead - lane.held, limit), lane.floor
        if room.starts is not None:
            slots = min(slots, room.starts - (len(lane.waiting) if lane else 0))
        return Wanted(destination, slots, floor) if slots > 0 else None

    def _most(self, room: Room) -> int:
        return self._limit if room.in_flight is None else min(self._limit, room.in_flight)

    def _new(self, destination: str, now: float) -> Lane:
        return Lane(destination, Speed(now), self._most(self._room(destination)))

    def add(self, plan: Plan, claimed: Claimed, now: float) -> list[Held]:
        """Take in what a claim brought. A destination that gave all it was asked may have more."""
        added = [Held(claim, claim.claimed_at) for claim in claimed.claims]
        counts: dict[str, int] = {}
        for held in added:
            destination = held.claim.destination
            counts[destination] = counts.get(destination, 0) + 1
            lane = self._lanes.get(destination)
            if lane is None:
                lane = self._lanes[destination] = self._new(destination, now)
            lane.waiting.append(held)
            self._starts.offer(lane)
        for reclaimed in claimed.reclaimed:
            counts[reclaimed.destination] = counts.get(reclaimed.destination, 0) + 1
        self._held += len(added)
        self._rejoin(plan, counts, claimed)
        self._starts.wake(len(added))
        return added

    def _rejoin(self, plan: Plan, counts: dict[str, int], claimed: Claimed) -> None:
        """Who gave all that was asked may have more; so may all, if the limit cut the claim."""
        cut = sum(counts.values()) >= plan.limit
        for each in reversed(plan.wanted):
            count = counts.get(each.destination, 0)
            full = count >= each.slots
            if full:
                self._turns.join(each.destination, quiet=False)
            elif cut:
                self._turns.rejoin_first(each.destination)
            lane = self._lanes.get(each.destination)
            if lane is not None:
                lane.floor = claimed.floors.get(each.destination) if full else None
        if self._turns:
            self.changed.set()

    def put_back(self, plan: Plan) -> None:
        """The claim failed: ask again."""
        self.wake(each.destination for each in plan.wanted)

    async def take(self) -> Held:
        """The next message to send, waited for; its slot is taken until `done`."""
        return await self._starts.take()

    def done(self, held: Held) -> None:
        """The message is sent or given up."""
        lane = self._lanes[held.claim.destination]
        lane.in_flight -= 1
        lane.speed.count()
        self._speed.count()
        self._held -= 1
        waiting = len(lane.waiting)
        self._starts.offer(lane)  # whoever called `done` takes next
        if self._short or (2 * waiting <= lane.ahead and lane.destination in self._turns):
            self.changed.set()

    def withdraw(self) -> list[Held]:
        """Everything that has not been started; nothing of it will be."""
        withdrawn = [held for lane in self._lanes.values() for held in lane.waiting]
        for lane in self._lanes.values():
            lane.waiting.clear()
        self._starts.clear()
        self._held -= len(withdrawn)
        return withdrawn
