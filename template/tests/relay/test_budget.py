"""What a message costs the database, and that neither history nor an old transaction changes it."""

import time
from statistics import median
from typing import Any

import pytest
from sqlalchemy import text

from app.db.engine import Database
from app.outbox.driver import Link
from app.outbox.store import Store, Wanted
from tests.outbox.factories import A, B, FakeKind, given_destination, given_events
from tests.outbox.test_plans import FILL_POSTGRESQL
from tests.relay.conftest import MakeRelay
from tests.support.size import nightly

MESSAGES = 2_000
STATEMENTS_PER_MESSAGE = 0.05


@pytest.fixture
def database_url(postgresql_url: str) -> str:
    """The statements of PostgreSQL."""
    return postgresql_url


async def test_a_message_costs_a_small_share_of_a_statement(
    database: Database, make_relay: MakeRelay, monkeypatch: pytest.MonkeyPatch
):
    """Claimed and settled by the hundred: at most one statement for twenty messages."""
    sent: list[str] = []
    real = Link.fetch

    async def counted(self: Link, statement: str, *arguments: Any) -> list[Any]:
        sent.append(statement)
        return await real(self, statement, *arguments)

    monkeypatch.setattr(Link, "fetch", counted)
    for destination in (A, B):
        await given_destination(database, destination)
    await given_events(database, MESSAGES // 2)
    counts = await make_relay({"test": FakeKind()}).drain()
    assert counts.delivered == MESSAGES
    assert len(sent) <= MESSAGES * STATEMENTS_PER_MESSAGE


async def claim_seconds(database: Database) -> float:
    """The median of claims of 200, each taken back."""
    store, times = Store(database), []
    for _ in range(21):
        started = time.perf_counter()
        found = await store.claim([Wanted(A, 100), Wanted(B, 100)])
        times.append(time.perf_counter() - started)
        assert len(found.claims) == 200
        await store.release(found.claims)
    await store.close()
    return median(times)


@nightly
async def test_a_claim_takes_no_longer_with_a_million_sent_rows(database: Database):
    """At most half as long again as without."""
    for destination in (A, B):
        await given_destination(database, destination)
    await given_events(database, 2_000)
    without = await claim_seconds(database)
    async with database.transaction() as session:
        await session.execute(text(FILL_POSTGRESQL))
    assert await claim_seconds(database) <= 1.5 * without


@nightly
async def test_a_forgotten_transaction_costs_at_most_half_of_the_speed(
    database: Database, make_relay: MakeRelay
):
    """An old snapshot keeps every dead row and index entry of the whole run."""
    count = 10_000
    for destination in (A, B):
        await given_destination(database, destination)

    async def drained() -> float:
        for _ in range(count // 2_000):
            await given_events(database, 1_000)
        started = time.perf_counter()
        assert (await make_relay({"test": FakeKind()}).drain()).delivered == count
        return count / (time.perf_counter() - started)

    free = await drained()
    async with database.writer.connect() as forgotten:
        await forgotten.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await forgotten.exec_driver_sql("SELECT count(*) FROM outbox_messages")
        held = await drained()
        await forgotten.rollback()
    assert held >= 0.5 * free
