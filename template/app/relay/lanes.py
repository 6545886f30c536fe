"""What the relay knows of each destination, in memory: what it holds, what may still be due.

Pure bookkeeping, no database, no network: `plan` says what to claim, `add` takes what came, `take`
hands out the next message to send, `done` frees its slot.

Invariants: a destination never has more than its limit in flight, nor an owner (`owner.py`) more
than its share; messages wait here only as long as their own speed needs to bridge one claim
(`AHEAD_SECONDS`), so that slow ones hold neither leases nor senders that others could use; an owner
with nothing in flight goes first, and of its destinations such a one; whoever is at a limit of its
own (`Room`, the share) is not asked and costs the others nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

from app.outbox.deliverer import NO_LIMIT, Room
from app.outbox.message import Claim
from app.outbox.store import Claimed
from app.relay.asking import Asking
from app.relay.known import Known
from app.relay.lane import Held, Lane, Plan
from app.relay.later import Later
from app.relay.slots import Slots
from app.relay.speed import Speed
from app.relay.starts import Starts
from app.relay.turns import Turns

UNSETTLED_BATCHES = 4  # held in all, outcomes that wait to be written included


class Lanes:
    """All destinations of one relay."""

    def __init__(
        self,
        concurrency: int,
        per_destination: int,
        batch: int,
        room: Callable[[str], Room] = lambda _: NO_LIMIT,
    ) -> None:
        self._room, self._batch = room, batch
        self._known = Known()
        self._lanes = self._known.lanes
        self.slots = Slots(concurrency, min(per_destination, concurrency))
        self._turns = Turns()
        self._starts = Starts(self.slots.share)
        self._later = Later()
        self._speed = Speed(0.0)
        self.held = 0  # claims in memory
        self._short = False  # the last plan ended because the relay was full
        self.changed = asyncio.Event()  # there may be something to claim

    @property
    def hungry(self) -> bool:
        """Whether a destination may have messages that are not claimed yet."""
        return bool(self._turns)

    def wake(self, destinations: Iterable[str]) -> None:
        """Something may be due there."""
        for destination in destinations:
            owner, quiet = self._known.owner(destination), self._known.quiet(destination)
            self._turns.join(destination, owner, quiet=quiet)
        self.changed.set()

    def learn(self, destination: str, tenant: str) -> None:
        """A message that is due there has that tenant."""
        if self._known.learn(destination, tenant):
            self._turns.move(destination, self._known.owner(destination))

    def wake_at(self, moment: float, destination: str) -> None:
        """Something will be due there at that monotonic time."""
        self._later.add(moment, destination)

    def wake_due(self, now: float) -> float | None:
        """Wake what has become due; the time of the next one."""
        if due := self._later.due(now):
            self.wake(due)
        return self._later.next

    def tidy(self) -> None:
        """Once per poll: forget what is idle, and floors, below which may be late commits."""
        self._known.tidy(self._turns.owners)

    def stretch(self, slow: int, began_before: float) -> None:
        """So many requests that began before then have no answer yet."""
        if self.slots.look(slow, began_before):
            self.changed.set()
        self._starts.allow(self.slots.share)

    def pass_on(self) -> None:
        """A sender goes: whoever is idle takes what it would have taken."""
        self._starts.wake(1)

    def plan(self, now: float, unsettled: int = 0) -> Plan:
        """What to claim now: from each destination that has room, in turn.

        `unsettled`: claims of this relay that are not settled; bounded, lest a database that is
        slow to settle be asked for ever more.
        """
        self.changed.clear()
        if (limit := self._at_most(now, unsettled)) is None:
            return Plan([], 0)
        asking = Asking(now, limit, self.slots, 2 * self._batch)
        resting = []
        for destination, owner in self._turns.walk(asking.may):
            if asking.enough:
                self._short = True
                break
            room = self._room(destination)
            lane = self._lanes.get(destination)
            if not asking.ask(destination, owner, lane, room) and room.starts == 0:
                resting.append(destination)
                if self._later.again(now + room.seconds, destination):
                    self.changed.set()  # the next time to look may have become an earlier one
        plan = asking.plan()
        for destination in (*resting, *(each.destination for each in plan.wanted)):
            self._turns.leave(destination)
        return plan

    def _at_most(self, now: float, unsettled: int) -> int | None:
        ahead = self._speed.ahead(now, 2 * self._batch)
        room = self.slots.all + ahead - self.held
        self._short = room <= ahead // 2
        if self._short and self._turns.freshen():
            room = max(room, self.slots.all - self.held + self._starts.stuck)
        elif self._short and not self._turns.quiet:
            return None  # many small claims cost more than waiting for room
        if room <= 0:
            return None
        unwritten = unsettled - self.slots.all
        return max(0, min(room, self._batch, UNSETTLED_BATCHES * self._batch - unwritten))

    def add(self, plan: Plan, claimed: Claimed, now: float) -> list[Held]:
        """Take in what a claim brought. A destination that gave all it was asked may have more."""
        added = [Held(claim, claim.claimed_at) for claim in claimed.claims]
        counts = Counter(held.claim.destination for held in added)
        for held in added:
            lane = self._lanes.get(held.claim.destination) or self._new(held.claim, now)
            lane.waiting.append(held)
            self._starts.offer(lane)
        for destination, count in counts.items():
            self._lanes[destination].owner.held += count
        counts.update(lost.destination for lost in claimed.reclaimed)
        self.held += len(added)
        self._rejoin(plan, counts, claimed)
        self._starts.wake(len(added))
        return added

    def _new(self, claim: Claim, now: float) -> Lane:
        self.learn(claim.destination, claim.tenant)
        limit = self.slots.one(self._room(claim.destination))
        return self._known.new(claim.destination, now, limit)

    def _rejoin(self, plan: Plan, counts: dict[str, int], claimed: Claimed) -> None:
        """Who gave all that was asked may have more; so may all, if the limit cut the claim."""
        cut = sum(counts.values()) >= plan.limit
        for each in reversed(plan.wanted):
            destination, lane = each.destination, self._lanes.get(each.destination)
            owner = self._known.owner(destination)
            full = counts.get(destination, 0) >= each.slots
            if full:
                self._turns.join(destination, owner, quiet=False)
            elif cut:
                self._turns.rejoin_first(destination, owner)
            if lane is not None:
                lane.floor = claimed.floors.get(destination) if full else None
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
        self.held -= 1
        lane = self._lanes[held.claim.destination]
        owner = lane.owner
        owner.done(lane)
        self._speed.done += 1
        if self.slots.slow and self.slots.ended(held.began):
            self._starts.allow(self.slots.share)
        self._starts.end(lane)
        if not owner.held:
            self._turns.emptied(owner)
        few = 2 * len(lane.waiting) <= lane.ahead and lane.destination in self._turns
        if few or self._short or owner.held <= owner.again:
            self.changed.set()

    def withdraw(self) -> list[Held]:
        """Everything that has not been started; nothing of it will be."""
        withdrawn = list(self._known.withdraw())
        self._starts.clear()
        self.held -= len(withdrawn)
        return withdrawn
