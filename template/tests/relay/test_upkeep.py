"""What a relay does beside delivering: it finishes replays, prunes, and counts what it pruned."""

from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry
from sqlalchemy import update

from app.db.engine import Database
from app.outbox import replay
from app.outbox.message import webhook_destination
from app.outbox.replay import ReplayRequest
from app.outbox.tables import outbox_messages
from app.relay.gauges import sample
from app.relay.metrics import RelayMetrics
from tests.outbox.factories import (
    FakeKind,
    given_destination,
    given_endpoint,
    given_events,
    message_rows,
)
from tests.relay.conftest import MakeRelay, eventually, running


async def test_a_replay_that_was_left_unfinished_is_finished_and_delivered(
    database: Database, make_relay: MakeRelay
):
    """Whoever started it may have died right after COMMIT."""
    await given_destination(database, webhook_destination(await given_endpoint(database)))
    await given_events(database, 3)
    async with database.transaction() as session:
        await session.execute(update(outbox_messages).values(sent_at=datetime.now(UTC)))
    old = {row["id"] for row in await message_rows(database)}
    async with database.transaction() as session:
        year = timedelta(days=365)
        request = ReplayRequest(since=datetime.now(UTC) - year, until=datetime.now(UTC) + year)
        started = await replay.start(session, request, "somebody")
    registry = CollectorRegistry()
    await sample(database, RelayMetrics(registry))
    assert registry.get_sample_value("outbox_replays_unfinished") == 1
    receiver = FakeKind()
    async with running(make_relay({"webhook": receiver})):
        await eventually(lambda: len(receiver.seen) == 3)
    assert not set(receiver.ids) & old
    async with database.read() as session:
        done = await replay.find(session, started.id)
    assert (done.created, done.finished_at is not None) == (3, True)


async def test_what_is_past_its_retention_is_pruned_and_counted(
    database: Database, make_relay: MakeRelay, registry: CollectorRegistry
):
    """`relay_pruned_total` by table."""
    await given_destination(database)
    await given_events(database, 2)
    long_ago = datetime.now(UTC) - timedelta(days=30)
    async with database.transaction() as session:
        await session.execute(update(outbox_messages).values(sent_at=long_ago))

    def pruned() -> float:
        return registry.get_sample_value("relay_pruned_total", {"table": "messages"}) or 0

    relay = make_relay({"test": FakeKind()}, prune_sent_days=0)
    async with running(relay):
        await eventually(lambda: pruned() == 2)
    assert await message_rows(database) == []
