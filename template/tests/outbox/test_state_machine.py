"""Random histories over the real store, checked against a model that is a few lines long.

Invariants: only the current token writes; a live lease is never claimed; sent and parked are final
without a person; attempts never fall except when a claim is given back; a lost write changes
nothing; every attempt has its line in the log.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete

from app.db.engine import Database
from app.outbox.message import (
    Claim,
    Deferred,
    Delivered,
    ErrorKind,
    Failed,
    Outcome,
    ParkedReason,
    Result,
)
from app.outbox.messages import dismiss, retry
from app.outbox.policy import GiveBack, Park, RetryIn, Sent, Transition
from app.outbox.prune import prune
from app.outbox.store import Settlement, Store, Wanted
from app.outbox.tables import attempts, events, outbox_messages
from tests.conftest import settings_for
from tests.outbox.factories import (
    A,
    B,
    attempt_rows,
    database_clock,
    given_destination,
    given_events,
    message_rows,
)
from tests.support.size import NIGHTLY

EXAMPLES, STEPS = (300, 50) if NIGHTLY else (10, 20)
LEASE = timedelta(seconds=60)
FAILED = Failed(ErrorKind.STATUS, "answered 500")
ENDS: dict[str, tuple[Outcome, Transition]] = {
    "sent": (Delivered(), Sent()),
    "retry": (FAILED, RetryIn(5.0)),
    "park": (FAILED, Park(ParkedReason.REJECTED)),
    "defer": (Deferred("busy"), GiveBack(1.0)),
    "refuse": (Deferred("disabled"), GiveBack(0.0, ParkedReason.ENDPOINT_DISABLED)),
}
STATUS_AFTER = {
    "sent": "sent", "retry": "pending", "park": "parked", "defer": "pending", "refuse": "parked",
}  # fmt: skip


@dataclass(slots=True)
class Known:
    """What the model knows of a message."""

    status: str = "pending"
    attempts: int = 0
    token: UUID | None = None
    lease: datetime | None = None
    alone: bool = False
    losses: int = 0
    lone_losses: int = 0
    logged: list[str] = field(default_factory=list)


class History(RuleBasedStateMachine):
    """Any order of what relays, people, time and retention do."""

    database: Database
    runner: asyncio.Runner
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(self.database)
        self.model: dict[UUID, Known] = {}
        self.now: datetime = self.do(self._empty())

    def do(self, work: Any) -> Any:
        """Wait for it, in the loop that all examples share."""
        return self.runner.run(work)

    async def _empty(self) -> datetime:
        async with self.database.transaction() as session:
            for table in (outbox_messages, attempts, events):
                await session.execute(delete(table))
        for destination in (A, B):
            await given_destination(self.database, destination)
        return await database_clock(self.database) + timedelta(seconds=1)

    def teardown(self) -> None:
        """Connections are the store's own."""
        self.do(self.store.close())

    @rule(count=st.integers(1, 3))
    def publish(self, count: int) -> None:
        """Every event owes one message to each of two destinations."""
        published = self.do(given_events(self.database, count))
        assert [p.messages for p in published] == [2] * count
        known = {row["id"] for row in self.do(message_rows(self.database))}
        new = known - self.model.keys()
        assert len(new) == 2 * count
        self.model.update({message_id: Known() for message_id in new})

    @rule(seconds=st.sampled_from([1, 10, 59, 61, 130]))
    def time_passes(self, seconds: int) -> None:
        """On the database's clock."""
        self.now += timedelta(seconds=seconds)

    @rule(target=claims, slots=st.integers(1, 3), destination=st.sampled_from([A, B]))
    def claim(self, slots: int, destination: str) -> object:
        """By any relay."""
        found = self.do(self.store.claim([Wanted(destination, slots)], self.now))
        return self._taken(found)

    @rule(target=claims, again=st.sampled_from([None, True, False]))
    def claim_lone(self, again: bool | None) -> object:
        """A suspect."""
        return self._taken(self.do(self.store.claim_lone(self.now, again)))

    def _taken(self, found: Any) -> Any:
        for lost in found.reclaimed:
            known = self.model[lost.message_id]
            assert known.status == "claimed"
            assert known.lease is not None
            assert known.lease < self.now, "a live lease was taken"
            known.lone_losses += known.alone
            known.losses += 1
            crashed = known.alone and known.lone_losses >= 3
            known.status = "parked" if crashed else "pending"
            assert bool(lost.parked) == crashed
            known.token = known.lease = None
            known.alone = False
            known.logged.append("lost")
        for claim in found.claims:
            known = self.model[claim.message_id]
            assert known.status == "pending", f"{known.status} was claimed"
            assert claim.attempt == known.attempts + 1
            assert claim.losses == known.losses
            known.status, known.attempts, known.token = "claimed", claim.attempt, claim.token
            known.lease, known.alone = self.now + LEASE, False
        return multiple(*found.claims)

    def _mine(self, claim: Claim) -> bool:
        known = self.model.get(claim.message_id)
        return known is not None and known.token == claim.token

    @rule(claim=claims, end=st.sampled_from(sorted(ENDS)))
    def settle(self, claim: Claim, end: str) -> None:
        """Late or in time, once or twice: written only with the current token."""
        outcome, transition = ENDS[end]
        batch = [Settlement(Result(claim, outcome, 0.0, 0.0), transition)]
        written = self.do(self.store.settle(batch, self.now))
        assert (written == {claim.message_id}) == self._mine(claim)
        if written:
            known = self.model[claim.message_id]
            known.status, known.token, known.lease = STATUS_AFTER[end], None, None
            if end in ("defer", "refuse"):
                known.attempts -= 1
            else:
                known.logged.append("delivered" if end == "sent" else "failed")

    @rule(claim=claims)
    def extend(self, claim: Claim) -> None:
        """A lease that nobody took over is as good as new."""
        kept = self.do(self.store.extend([claim], self.now))
        assert (kept == {claim.message_id}) == self._mine(claim)
        if kept:
            self.model[claim.message_id].lease = self.now + LEASE

    @rule(claim=claims, alone=st.booleans())
    def set_alone(self, claim: Claim, alone: bool) -> None:
        """Only by the holder."""
        noted = self.do(self.store.set_alone(claim, alone=alone))
        assert noted == self._mine(claim)
        if noted:
            self.model[claim.message_id].alone = alone

    @rule(claim=claims)
    def release(self, claim: Claim) -> None:
        """Never started: the attempt is given back."""
        mine = self._mine(claim)
        assert (self.do(self.store.release([claim])) == {claim.message_id}) == mine
        if mine:
            known = self.model[claim.message_id]
            known.status, known.token, known.lease = "pending", None, None
            known.attempts -= 1

    @rule(data=st.data(), act=st.sampled_from(["retry", "dismiss"]))
    def a_person_acts(self, data: st.DataObject, act: str) -> None:
        """Only on parked messages."""
        parked = sorted(i for i, known in self.model.items() if known.status == "parked")
        if not parked:
            return
        message_id = data.draw(st.sampled_from(parked))
        self.do(self._act(message_id, act))
        known = self.model[message_id]
        if act == "dismiss":
            known.status = "dismissed"
        else:
            known.status, known.losses, known.lone_losses = "pending", 0, 0

    async def _act(self, message_id: UUID, act: str) -> None:
        async with self.database.transaction() as session:
            if act == "dismiss":
                await dismiss(session, message_id, "not needed")
            else:
                await retry(session, message_id)

    @rule()
    def retention(self) -> None:
        """A year later: sent and dismissed may go, nothing else does."""
        later = self.now + timedelta(days=30)
        self.do(prune(self.database, self.database.settings, later))
        self.model = {
            i: known for i, known in self.model.items()
            if known.status not in ("sent", "dismissed")
        }  # fmt: skip

    @invariant()
    def the_rows_are_what_the_model_says(self) -> None:
        """Status, numbering, token and log of every message."""
        rows = {row["id"]: row for row in self.do(message_rows(self.database))}
        assert rows.keys() == self.model.keys()
        log: dict[UUID, list[str]] = {}
        for attempt in self.do(attempt_rows(self.database)):
            log.setdefault(attempt["message_id"], []).append(attempt["outcome"])
        for message_id, known in self.model.items():
            row = rows[message_id]
            seen = (row["status"], row["attempts"], row["claim_token"], row["losses"])
            assert seen == (known.status, known.attempts, known.token, known.losses)
            assert sorted(log.get(message_id, [])) == sorted(known.logged)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_g2_g3_g6_no_history_breaks_a_promise(kind: str, request: pytest.FixtureRequest):
    """Publish, time, claim, extend, settle, defer, release, lose, retry, dismiss, prune."""
    url = request.getfixturevalue(f"{kind}_url")
    with asyncio.Runner() as runner:
        database = Database(settings_for(url))

        class Here(History):
            pass

        Here.database, Here.runner = database, runner
        run_state_machine_as_test(
            Here,
            settings=settings(
                max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None,
                derandomize=not NIGHTLY, database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )  # fmt: skip
        runner.run(database.dispose())
