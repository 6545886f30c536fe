"""The outbox as numbers, sampled in every process that shows metrics."""

import re
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry
from sqlalchemy import update

from app.config import Settings
from app.db.engine import Database
from app.outbox.tables import outbox_messages
from app.relay.gauges import sample
from app.relay.metrics import RelayMetrics
from tests.outbox.factories import given_destination, given_events
from tests.support.site import opened, until


async def _overdue(database: Database, seconds: float, **values: object) -> None:
    await given_destination(database)
    await given_events(database)
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    async with database.transaction() as session:
        await session.execute(update(outbox_messages).values(available_at=moment, **values))


async def _sampled(database: Database) -> tuple[float | None, float | None, float | None]:
    registry = CollectorRegistry()
    await sample(database, RelayMetrics(registry))
    value = registry.get_sample_value
    pending = value("outbox_messages", {"status": "pending"})
    parked = value("outbox_messages", {"status": "parked"})
    return pending, parked, value("outbox_oldest_due_seconds")


async def test_an_empty_outbox_shows_zeros(database: Database) -> None:
    """A number, not a gap: an alert on a gap does not fire."""
    assert await _sampled(database) == (0.0, 0.0, 0.0)


async def test_the_gauges_tell_how_long_the_oldest_message_has_been_due(database: Database) -> None:
    """Whether or not a claim of it was lost."""
    for losses in (0, 1):
        await _overdue(database, 90, losses=losses)
        pending, parked, oldest = await _sampled(database)
        assert (pending, parked) == (1.0 + losses, 0.0)
        assert oldest is not None
        assert 85 < oldest < 120


async def test_what_is_due_later_or_parked_is_not_overdue(database: Database) -> None:
    """Waiting for the next attempt is no delay, and parked waits for a person."""
    await _overdue(database, -3600)
    assert await _sampled(database) == (1.0, 0.0, 0.0)
    await _overdue(database, 90, parked_at=datetime.now(UTC), parked_reason="exhausted")
    assert await _sampled(database) == (0.0, 2.0, 0.0)


async def test_a_server_without_a_relay_shows_that_nobody_delivers(settings: Settings) -> None:
    """The alert on a stopped relay can't depend on a running one."""
    database = Database(settings)
    await _overdue(database, 90)
    await database.dispose()
    async with opened(settings) as site:
        headers = await site.headers("read")

        async def overdue() -> bool:
            text = (await site.client.get("/metrics", headers=headers)).text
            found = re.search(r"^outbox_oldest_due_seconds (\S+)$", text, re.MULTILINE)
            return found is not None and float(found[1]) > 85

        await until(overdue)
