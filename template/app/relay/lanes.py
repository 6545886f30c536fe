"""What the relay knows of each destination, in memory: what it holds, what may still be due.

Pure bookkeeping, no database, no network: `plan` says what to claim, `add` takes what came, `take`
hands out the next message to send, `done` frees its slot.

Invariants: a destination never has more than its limit in flight; messages wait here only as long
as its own speed needs to bridge one claim (`AHEAD_SECONDS`), so that a slow destination holds
neither leases nor senders that others could use; a destination with nothing in flight goes first.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Iterable

from app.outbox.store import Claimed, Wanted
from app.relay.lane import Held, Lane, Plan, Speed
from app.relay.turns import Turns

LATE_SECONDS = 0.002  # look this much after a due time, whose fraction the database may round
UNSETTLED_BATCHES = 4  # held in all, outcomes that wait to be written included
OVERASKING = 4  # times the room


class Lanes:
    """All destinations of one relay."""

    def __init__(self, concurrency: int, per_destination: int, batch: int) -> None:
        self._concurrency = concurrency
        self._limit = min(per_destination, concurrency)
        self._batch = batch
        self._lanes: dict[str, Lane] = {}
        self._turns = Turns()
        self._ready: deque[Lane] = deque()  # may start one now
        self._due: list[tuple[float, str]] = []
        self._speed = Speed(0.0)
        self._held = 0
        self._short = False  # the last plan ended because the relay was full
        self.changed = asyncio.Event()  # there may be something to claim
        self._idle: list[asyncio.Future[None]] = []  # senders that wait for a message

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
        heapq.heappush(self._due, (moment + LATE_SECONDS, destination))

    def wake_due(self, now: float) -> float | None:
        """Wake what has become due; the time of the next one."""
        while self._due and self._due[0][0] <= now:
            self.wake((heapq.heappop(self._due)[1],))
        return self._due[0][0] if self._due else None

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
        ahead = self._speed.ahead(now, 2 * self._batch)
        room = self._concurrency + ahead - self._held
        self._short = room <= ahead // 2
        if self._short and not (self._turns.quiet and room > 0):
            return Plan([], 0)  # many small claims cost more than waiting for room
        settling = self._concurrency + UNSETTLED_BATCHES * self._batch - unsettled
        limit = max(0, min(room, self._batch, settling))
        wanted: list[Wanted] = []
        asked = 0
        for destination in self._turns:
            if asked >= OVERASKING * limit:
                self._short = True
                break
            each = self._wanted(destination, limit, now)
            if each is not None:
                asked += each.slots
                wanted.append(each)
        for each in wanted:
            self._turns.leave(each.destination)
        return Plan(wanted, limit)

    def _wanted(self, destination: str, limit: int, now: float) -> Wanted | None:
        lane = self._lanes.get(destination)
        if lane is None:
            return Wanted(destination, min(self._limit, limit))
        lane.ahead = lane.speed.ahead(now, 2 * self._batch)
        slots = min(self._limit + lane.ahead - lane.held, limit)
        return Wanted(destination, slots, lane.floor) if slots > 0 else None

    def add(self, plan: Plan, claimed: Claimed, now: float) -> list[Held]:
        """Take in what a claim brought. A destination that gave all it was asked may have more."""
        added = [Held(claim, claim.claimed_at) for claim in claimed.claims]
        counts: dict[str, int] = {}
        for held in added:
            destination = held.claim.destination
            counts[destination] = counts.get(destination, 0) + 1
            lane = self._lanes.get(destination)
            if lane is None:
                lane = self._lanes[destination] = Lane(destination, Speed(now))
            lane.waiting.append(held)
            if len(lane.waiting) == 1 and lane.in_flight < self._limit:
                self._make_ready(lane)
        for reclaimed in claimed.reclaimed:
            counts[reclaimed.destination] = counts.get(reclaimed.destination, 0) + 1
        self._held += len(added)
        self._rejoin(plan, counts, claimed)
        self._wake_senders(len(added))
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
        while not self._ready:
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter
        lane = self._ready.popleft()
        lane.in_flight += 1
        held = lane.waiting.popleft()
        if lane.waiting and lane.in_flight < self._limit:
            self._ready.append(lane)
        return held

    def _wake_senders(self, count: int) -> None:
        while count > 0 and self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def done(self, held: Held) -> None:
        """The message is sent or given up."""
        lane = self._lanes[held.claim.destination]
        lane.in_flight -= 1
        lane.speed.count()
        self._speed.count()
        self._held -= 1
        waiting = len(lane.waiting)
        if waiting and lane.in_flight == self._limit - 1:
            self._make_ready(lane)  # whoever called `done` takes next
        if self._short or (2 * waiting <= lane.ahead and lane.destination in self._turns):
            self.changed.set()

    def _make_ready(self, lane: Lane) -> None:
        if lane.in_flight:
            self._ready.append(lane)
        else:
            self._ready.appendleft(lane)

    def withdraw(self) -> list[Held]:
        """Everything that has not been started; nothing of it will be."""
        withdrawn = [held for lane in self._lanes.values() for held in lane.waiting]
        for lane in self._lanes.values():
            lane.waiting.clear()
        self._ready.clear()
        self._held -= len(withdrawn)
        return withdrawn
