"""Relays that are killed or frozen in the middle of their work, on PostgreSQL (G4, G5)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.publish import publish
from tests.conftest import settings_for
from tests.support.processes import Application
from tests.support.receiver import Answer, Receiver

LEASE_SECONDS = 3.0
START_SECONDS = 60.0  # a process on a machine that is busy with other tests
SHORT_LEASE = {
    "APP_LEASE_SECONDS": str(LEASE_SECONDS),
    "APP_REQUEST_TIMEOUT_SECONDS": "1",
    "APP_CONNECT_TIMEOUT_SECONDS": "1",
    "APP_POLL_SECONDS": "0.2",
}


@pytest.fixture
def application(postgresql_url: str, tmp_path: Path) -> Application:
    return Application(tmp_path, postgresql_url, **SHORT_LEASE)


@pytest.fixture
async def postgresql(postgresql_url: str) -> AsyncIterator[Database]:
    database = Database(settings_for(postgresql_url))
    yield database
    await database.dispose()


async def publish_many(database: Database, count: int) -> None:
    async with database.transaction() as session:
        for number in range(count):
            await publish(session, Event(type="order.created", data={"number": number}))


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Wait for a condition; a deadline, not a sleep, decides."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the condition is in the database
            await asyncio.sleep(0.05)


async def rows(database: Database, statement: str) -> list[tuple]:
    async with database.read() as session:
        return [tuple(row) for row in await session.execute(text(statement))]


async def test_g4_a_relay_killed_while_a_request_is_out_loses_nothing(
    application: Application, postgresql: Database
):
    """After the lease another relay delivers it, with the same webhook-id."""
    async with Receiver() as receiver:
        never = asyncio.Event()
        receiver.on("/hook", Answer(hold=never), Answer(200))
        application.run("endpoints", "add", receiver.url_for("/hook"), "--types", "order.*")
        await publish_many(postgresql, 1)
        with application.start("relay") as first:
            await receiver.wait_for(1, timeout=START_SECONDS)
            first.kill()
        with application.start("relay") as second:
            one, two = await receiver.wait_for(2, timeout=LEASE_SECONDS + START_SECONDS)
            await until(lambda: all_are(postgresql, "sent"), START_SECONDS)
            assert second.stop() == 0
        assert one.webhook_id == two.webhook_id
        attempts = await rows(postgresql, "SELECT number, outcome FROM attempts ORDER BY number")
        assert attempts == [(1, "lost"), (2, "delivered")]


async def all_are(database: Database, status: str) -> bool:
    found = await rows(database, "SELECT DISTINCT status FROM outbox_messages")
    return found == [(status,)]


FREEZE_INSIDE_A_CLAIM = """
CREATE SEQUENCE claims;
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('claims') = 1 THEN PERFORM pg_sleep(1); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER linger BEFORE UPDATE ON outbox_messages FOR EACH ROW
WHEN (OLD.claim_token IS NULL AND NEW.claim_token IS NOT NULL) EXECUTE FUNCTION linger();
"""


async def test_g4_a_relay_frozen_inside_its_claim_delays_nothing_beyond_the_lease(
    application: Application, postgresql: Database
):
    """Other relays deliver everything within lease + 10 s; woken again, it sends nothing twice."""
    count = 20
    async with postgresql.writer.begin() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        await driver.execute(FREEZE_INSIDE_A_CLAIM)
    async with Receiver() as receiver:
        application.run("endpoints", "add", receiver.url_for("/hook"), "--types", "order.*")
        await publish_many(postgresql, count)
        with application.start("relay") as frozen:
            await until(lambda: is_claiming(postgresql), START_SECONDS)
            frozen.freeze()
            with application.start("relay") as other:
                await receiver.wait_for(1, timeout=START_SECONDS)
                await until(lambda: all_are(postgresql, "sent"), LEASE_SECONDS + 10)
                frozen.wake()
                assert frozen.stop() == 0
                assert other.stop() == 0
        arrived = [request.webhook_id for request in receiver.requests]
        assert len(arrived) == len(set(arrived)) == count


async def is_claiming(database: Database) -> bool:
    found = await rows(
        database, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    )
    return found == [(1,)]
