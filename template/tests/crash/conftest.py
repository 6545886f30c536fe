"""An application as processes on a PostgreSQL database of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.publish import publish
from tests.conftest import settings_for
from tests.crash.plant import SHORT_LEASE
from tests.support.processes import Application


@pytest.fixture
def application(postgresql_url: str, tmp_path: Path) -> Application:
    return Application(tmp_path, postgresql_url, **SHORT_LEASE)


@pytest.fixture
async def postgresql(postgresql_url: str) -> AsyncIterator[Database]:
    database = Database(settings_for(postgresql_url))
    yield database
    await database.dispose()


async def publish_many(database: Database, count: int) -> None:
    """In one transaction; nobody is told."""
    async with database.transaction() as session:
        for number in range(count):
            await publish(session, Event(type="order.created", data={"number": number}))


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Wait for a condition; a deadline, not a sleep, decides."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the condition is in the database
            await asyncio.sleep(0.05)


async def rows(database: Database, statement: str) -> list[tuple]:
    """What the database says."""
    async with database.read() as session:
        return [tuple(row) for row in await session.execute(text(statement))]


async def all_are(database: Database, status: str) -> bool:
    """Whether every message has this status, and there is one."""
    found = await rows(database, "SELECT DISTINCT status FROM outbox_messages")
    return found == [(status,)]


async def execute(database: Database, script: str) -> None:
    """Several statements at once."""
    async with database.writer.begin() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        await driver.execute(script)


# The first claim lingers on the server for a second before it commits.
LINGER_INSIDE_A_CLAIM = """
CREATE SEQUENCE claims;
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('claims') = 1 THEN PERFORM pg_sleep(1); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER linger BEFORE UPDATE ON outbox_messages FOR EACH ROW
WHEN (OLD.claim_token IS NULL AND NEW.claim_token IS NOT NULL) EXECUTE FUNCTION linger();
"""


async def is_claiming(database: Database) -> bool:
    """Whether that first claim is under way."""
    found = await rows(
        database, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    )
    return found == [(1,)]
