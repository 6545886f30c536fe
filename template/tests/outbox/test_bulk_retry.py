"""Many retries at once: what they take, what they leave, and that they can be cut off anywhere."""

import itertools
from datetime import timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import Database
from app.errors import BadRequest
from app.outbox import bulk_retry
from app.outbox.bulk_retry import retry_all
from app.outbox.erasure import erase
from app.outbox.message import ParkedReason, Status, webhook_destination
from app.outbox.messages import MessageFilter
from app.outbox.tables import outbox_messages
from tests.outbox.factories import A, database_clock, given_endpoint, given_parked, message_rows


class Recorded:
    """What would be audited; fails after so many batches if it is told to."""

    def __init__(self, batches: int = 1000) -> None:
        self.counts: list[int] = []
        self._batches = batches

    async def __call__(self, session: AsyncSession, count: int) -> None:
        if len(self.counts) == self._batches:
            raise LookupError
        self.counts.append(count)


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_retry, "BATCH", 3)


async def states(database: Database) -> list[str]:
    return [row["status"] for row in await message_rows(database)]


@pytest.mark.usefixtures("_small_batches")
async def test_batch_after_batch_is_committed_with_its_own_record(database: Database):
    """No statement is larger than a batch; the report counts all of them."""
    await given_parked(database, 8)
    recorded = Recorded()
    report = await retry_all(database, MessageFilter(), recorded)
    assert (report.matched, report.retried) == (8, 8)
    assert recorded.counts == [3, 3, 2]
    assert set(await states(database)) == {"pending"}


@pytest.mark.usefixtures("_small_batches")
async def test_a_run_that_is_cut_off_goes_on_when_it_is_run_again(database: Database):
    """A batch whose record fails is rolled back; what was committed is not retried twice."""
    await given_parked(database, 8)
    with pytest.raises(LookupError):
        await retry_all(database, MessageFilter(), Recorded(batches=1))
    assert sorted(await states(database)) == ["parked"] * 5 + ["pending"] * 3
    recorded = Recorded()
    report = await retry_all(database, MessageFilter(), recorded)
    assert (report.matched, recorded.counts) == (5, [3, 2])


@pytest.mark.usefixtures("_small_batches")
async def test_what_is_parked_meanwhile_is_left(database: Database):
    """Else a receiver that refuses everything would keep the run going for ever."""
    await given_parked(database, 4)
    calls = 0

    async def park_again(session: AsyncSession, count: int) -> None:
        nonlocal calls
        calls += 1
        await session.execute(
            update(outbox_messages)
            .where(outbox_messages.c.parked_at.is_(None))
            .values(parked_at=later, parked_reason="rejected")
        )

    later = await database_clock(database) + timedelta(minutes=1)
    report = await retry_all(database, MessageFilter(), park_again)
    assert (report.retried, calls) == (4, 2)


async def test_with_a_pace_they_become_due_one_after_the_other(database: Database):
    """And the ladder of each starts when it is due, so that no age limit runs meanwhile."""
    await given_parked(database, 5)
    await retry_all(database, MessageFilter(), Recorded(), per_second=0.5)
    rows = sorted(await message_rows(database), key=lambda row: row["available_at"])
    gaps = [
        (b["available_at"] - a["available_at"]).total_seconds() for a, b in itertools.pairwise(rows)
    ]
    assert gaps == [2.0] * 4
    assert all(row["ladder_started_at"] == row["available_at"] for row in rows)


@pytest.mark.parametrize("per_second", [0, -1, 1e9, float("nan")])
async def test_a_pace_that_is_none_is_refused(database: Database, per_second: float):
    """Before anything is changed."""
    await given_parked(database)
    with pytest.raises(BadRequest, match="per_second"):
        await retry_all(database, MessageFilter(), Recorded(), per_second=per_second)
    assert await states(database) == ["parked"]


async def test_closed_endpoints_and_erased_bodies_are_matched_and_left(database: Database):
    """A person enables, dismisses or rotates first."""
    disabled = await given_endpoint(database, "disabled")
    deleted = await given_endpoint(database, "deleted")
    await given_parked(database, 1, webhook_destination(disabled), "a")
    await given_parked(database, 1, webhook_destination(deleted), "b")
    [erased] = await given_parked(database, 1, "test:erased", "c")
    [fine] = await given_parked(database, 1, A, "d")
    async with database.transaction() as session:
        await erase(session, erased)
    recorded = Recorded()
    report = await retry_all(database, MessageFilter(), recorded)
    assert (report.matched, report.retried, recorded.counts) == (4, 1, [1])
    assert {r["id"] for r in await message_rows(database) if r["status"] == "pending"} == {fine}


async def test_a_dry_run_counts_and_changes_nothing(database: Database):
    """Only what the filter matches; nothing is recorded."""
    await given_parked(database, 3)
    before = await message_rows(database)
    recorded = Recorded()
    wanted = MessageFilter(type="order.*", reason=ParkedReason.REJECTED)
    report = await retry_all(database, wanted, recorded, dry_run=True)
    assert (report.matched, report.retried) == (3, 0)
    for other in (MessageFilter(type="other.*"), MessageFilter(tenant="other")):
        assert (await retry_all(database, other, recorded)).matched == 0
    with pytest.raises(BadRequest, match="only parked"):
        await retry_all(database, MessageFilter(status=Status.SENT), recorded)
    assert await message_rows(database) == before
    assert recorded.counts == []
