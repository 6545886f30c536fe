"""Random histories of an ordered lane, each claim checked against the rule in a few lines."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.message import (
    Claim,
    Delivered,
    ErrorKind,
    Failed,
    Ordering,
    ParkedReason,
    Result,
)
from app.outbox.messages import dismiss, retry
from app.outbox.ordering import Order, set_order
from app.outbox.policy import Park, RetryIn, Sent, Transition
from app.outbox.publish import publish
from app.outbox.store import Settlement, Store, Wanted
from tests.outbox.factories import A, given_destination, message_rows

START = datetime.now(UTC) + timedelta(days=1)
GAP, STEPS, KEYS = 30.0, 120, "xyz"


@dataclass(slots=True)
class Known:
    """What the rule needs to know of a message."""

    state: str = "open"  # open | parked | done
    stuck_since: float | None = None
    due: float = 0.0  # first


class History:
    """One destination, three keys, and a clock that only the test moves."""

    def __init__(self, database: Database, ordering: Ordering, seed: int) -> None:
        self.database, self.ordering, self.random = database, ordering, Random(seed)
        self.store = Store(database)
        self.clock = 0.0
        self.known: dict[tuple[str, int], Known] = {}
        self.held: list[tuple[str, Claim]] = []

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.clock)

    async def publish(self) -> None:
        """One more at the end of a line."""
        key = self.random.choice(KEYS)
        async with self.database.transaction() as session:
            event = Event(type="a.b", data=None, ordering_key=key, available_at=self.now)
            await publish(session, event)
        number = 1 + sum(name == key for name, _ in self.known)
        self.known[key, number] = Known(due=self.clock)

    async def claim(self) -> None:
        """Whatever may go, and nothing that may not."""
        await self.store.due(self.now)
        found = await self.store.claim([Wanted(A, 2)], self.now)
        keys = {row["id"]: row["ordering_key"] for row in await message_rows(self.database)}
        for claim in found.claims:
            key = keys[claim.message_id]
            assert claim.sequence is not None
            lower = [self.known[key, number] for number in range(1, claim.sequence)]
            me = self.known[key, claim.sequence]
            assert me.state == "open"
            assert [other for other in lower if self.holds_up(other, me)] == []
            self.held.append((key, claim))

    def holds_up(self, other: Known, me: Known) -> bool:
        """The rule of G10."""
        if other.state == "done":
            return False
        match self.ordering:
            case Ordering.SKIP:
                return other.state != "parked"
            case Ordering.YIELD if other.stuck_since is not None:
                mine = me.due if me.stuck_since is None else min(me.due, me.stuck_since)
                return self.clock < max(other.stuck_since, mine) + GAP - 0.01
        return True

    async def settle(self) -> None:
        """One that is out comes back."""
        if not self.held:
            return
        key, claim = self.held.pop(self.random.randrange(len(self.held)))
        ends: list[Transition] = [Sent(), RetryIn(20.0), Park(ParkedReason.REJECTED)]
        await self.end(key, claim, self.random.choice(ends))

    async def end(self, key: str, claim: Claim, to: Transition) -> None:
        failed = Failed(ErrorKind.STATUS, "answered 500")
        outcome = Delivered() if isinstance(to, Sent) else failed
        settlement = Settlement(Result(claim, outcome, 0.0, 0.0), to)
        assert await self.store.settle([settlement], self.now) == {claim.message_id}
        known = self.known[key, claim.sequence or 0]
        known.state = {Sent: "done", Park: "parked"}.get(type(to), "open")
        known.stuck_since = self.clock if known.stuck_since is None else known.stuck_since

    async def act(self) -> None:
        """A person retries or dismisses one that is parked."""
        rows = [row for row in await message_rows(self.database) if row["status"] == "parked"]
        if not rows:
            return
        row = self.random.choice(rows)
        known = self.known[row["ordering_key"], row["sequence"]]
        async with self.database.transaction() as session:
            if self.random.random() < 0.5:
                await retry(session, row["id"])
                known.state, known.stuck_since = "open", None
            else:
                await dismiss(session, row["id"], "of no use")
                known.state = "done"

    async def wait(self) -> None:
        """Time passes."""
        self.clock += self.random.choice([0.5, 5.0, 25.0])

    async def finish(self) -> None:
        """Every line comes to its end: nothing waits for ever."""
        for _ in range(10 * len(self.known)):
            while self.held:
                key, claim = self.held.pop()
                await self.end(key, claim, Sent())
            while any(known.state == "parked" for known in self.known.values()):
                await self.act()
            if all(known.state == "done" for known in self.known.values()):
                return
            self.clock += 10.0
            await self.claim()
        raise AssertionError("something waits for ever")


@pytest.mark.parametrize("ordering", [Ordering.STRICT, Ordering.YIELD, Ordering.SKIP])
async def test_g10_no_history_lets_a_message_go_that_has_to_wait(
    database: Database, ordering: Ordering
):
    """Publish, claim, settle, retry, dismiss, wait, in any order; then all come to their end."""
    history = History(database, ordering, seed=7)
    await given_destination(database)
    async with database.transaction() as session:
        await set_order(session, A, Order(ordering, GAP))
    steps: list[Callable] = [history.publish, history.publish, history.claim, history.claim]
    steps += [history.settle, history.settle, history.act, history.wait]
    for _ in range(STEPS):
        await history.random.choice(steps)()
    await history.finish()
    await history.store.close()
