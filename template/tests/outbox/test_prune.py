"""Retention: what goes, what stays, and that nothing parked or owed ever goes."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, insert, select, text, update

from app.api.tables import audit_log, idempotency_keys
from app.config import Settings
from app.db.engine import Database
from app.ids import uuid7
from app.outbox.message import Delivered, ErrorKind, Failed, ParkedReason, Result
from app.outbox.policy import Park, Sent
from app.outbox.prune import first_id, prune
from app.outbox.store import Settlement, Store, Wanted
from app.outbox.tables import events, inbox_messages, outbox_messages, replays
from tests.outbox.factories import (
    A,
    attempt_rows,
    database_clock,
    given_destination,
    given_events,
    message_rows,
)
from tests.relay.conftest import eventually


async def given_each_state(database: Database) -> tuple[datetime, list[UUID]]:
    """A message sent, one parked, one dismissed, one pending; the time, and the ids that go."""
    await given_destination(database)
    await given_events(database, 4)
    now = await database_clock(database) + timedelta(seconds=1)
    store = Store(database)
    sent, parked, dismissed = (await store.claim([Wanted(A, 3)], now)).claims
    failed, park = Failed(ErrorKind.STATUS, "404"), Park(ParkedReason.REJECTED)
    await store.settle(
        [
            Settlement(Result(sent, Delivered(), 1, 1), Sent()),
            Settlement(Result(parked, failed, 1, 1), park),
            Settlement(Result(dismissed, failed, 1, 1), park),
        ],
        now,
    )
    async with database.transaction() as session:
        chosen = outbox_messages.c.id == dismissed.message_id
        await session.execute(update(outbox_messages).where(chosen).values(dismissed_at=now))
    await store.close()
    return now, [sent.message_id, dismissed.message_id]


async def test_sent_and_dismissed_messages_go_after_their_days(
    database: Database, settings: Settings
):
    """With their events; what is parked or pending stays whatever its age."""
    now, closed = await given_each_state(database)
    almost = await prune(database, settings, now + timedelta(days=7) - timedelta(seconds=1))
    assert (almost.messages, almost.events) == (0, 0)
    report = await prune(database, settings, now + timedelta(days=7, seconds=1))
    assert (report.messages, report.events, report.attempts) == (2, 2, 0)
    rows = await message_rows(database)
    assert sorted(row["status"] for row in rows) == ["parked", "pending"]
    assert not {row["id"] for row in rows} & set(closed)
    async with database.read() as session:
        kept = set((await session.execute(select(events.c.id))).scalars())
    assert kept == {row["event_id"] for row in rows}


async def test_g6_parked_messages_and_their_attempts_are_never_pruned(
    database: Database, settings: Settings
):
    """G6: ten years later the evidence is still there; the log of what was pruned is not."""
    now, _ = await given_each_state(database)
    report = await prune(database, settings, now + timedelta(days=3650))
    assert (report.messages, report.attempts) == (2, 2)
    [parked] = [row for row in await message_rows(database) if row["status"] == "parked"]
    assert [attempt["message_id"] for attempt in await attempt_rows(database)] == [parked["id"]]


async def test_attempts_outlive_their_message_as_the_audit_trail(
    database: Database, settings: Settings
):
    """90 days, while the message goes after 7."""
    now, closed = await given_each_state(database)
    await prune(database, settings, now + timedelta(days=89))
    assert {a["message_id"] for a in await attempt_rows(database)} > set(closed)


async def test_an_event_stays_while_a_message_refers_to_it(database: Database, settings: Settings):
    """Two destinations of one event: one sent, one pending."""
    await given_destination(database)
    await given_destination(database, "test:late")
    await given_events(database)
    now = await database_clock(database) + timedelta(seconds=1)
    store = Store(database)
    [claim] = (await store.claim([Wanted(A, 1)], now)).claims
    await store.settle([Settlement(Result(claim, Delivered(), 1, 1), Sent())], now)
    await store.close()
    report = await prune(database, settings, now + timedelta(days=30))
    assert (report.messages, report.events) == (1, 0)


async def test_many_rows_go_in_many_batches(database: Database, settings: Settings):
    """Each a transaction of its own, stepping over what stays."""
    await given_destination(database)
    await given_events(database, 25)
    now = await database_clock(database) + timedelta(seconds=1)
    ids = [row["id"] for row in await message_rows(database)]
    closed = [i for n, i in enumerate(ids) if n % 5]
    async with database.transaction() as session:
        chosen = outbox_messages.c.id.in_(closed)
        await session.execute(update(outbox_messages).where(chosen).values(sent_at=now))
    report = await prune(database, settings, now + timedelta(days=8), batch=3)
    assert (report.messages, report.events) == (20, 20)
    assert len(await message_rows(database)) == 5


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_retention_of_a_table_that_has_grown_walks_no_table(
    database: Database, settings: Settings
):
    """A plan made for a few rows is kept, also the one by which a foreign key is checked for each
    event that goes: with it a batch took 70 times as long.
    """
    await given_destination(database)
    later = await database_clock(database) + timedelta(days=30)
    for count in (20, 2000):
        await given_events(database, count)
        async with database.transaction() as session:
            await session.execute(update(outbox_messages).values(sent_at=func.now()))
            if count == 20:
                await session.execute(text("ANALYZE"))
        before = await _scans(database)
        report = await prune(database, settings, later, batch=count // 4)
        assert report.events == count
    await eventually(lambda: _has_deleted(database, 2020))
    assert await _scans(database) - before < 10


async def _scans(database: Database) -> int:
    async with database.read() as session:
        query = text("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'outbox_messages'")
        return int((await session.execute(query)).scalar_one())


async def _has_deleted(database: Database, count: int) -> bool:
    """What a connection has done is counted by the server a moment later."""
    async with database.read() as session:
        query = text("SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'events'")
        return int((await session.execute(query)).scalar_one()) >= count


async def test_keys_inbox_and_audit_have_their_own_periods(database: Database, settings: Settings):
    """24 hours, 30 days, 365 days; one minute before, nothing goes."""
    now = await database_clock(database)
    key = {"tenant": "", "api_key_id": uuid4(), "route": "POST /x", "fingerprint": b"x"}
    entry = {"actor": "a", "action": "b", "target": "c", "detail": {}}
    async with database.transaction() as session:
        await session.execute(
            insert(idempotency_keys).values(
                **key, key="k", created_at=now - timedelta(hours=24, minutes=-1)
            )
        )
        await session.execute(
            insert(inbox_messages).values(
                source="s", webhook_id="w", received_at=now - timedelta(days=30, minutes=-1)
            )
        )
        await session.execute(
            insert(audit_log).values(
                **entry, id=first_id(now - timedelta(days=365, minutes=-1)), at=now
            )
        )
    before = await prune(database, settings, now)
    after = await prune(database, settings, now + timedelta(minutes=2))
    counts = [(r.idempotency_keys, r.inbox_messages, r.audit_entries) for r in (before, after)]
    assert counts == [(0, 0, 0), (1, 1, 1)]


async def test_the_periods_are_settings(database: Database, settings: Settings):
    """APP_PRUNE_SENT_DAYS."""
    now, _ = await given_each_state(database)
    report = await prune(database, replace(settings, prune_sent_days=1), now + timedelta(days=2))
    assert report.messages == 2
    async with database.read() as session:
        assert (await session.execute(select(func.count()).select_from(events))).scalar() == 2


async def test_a_run_ends_when_its_time_is_over_and_the_next_goes_on(
    database: Database, settings: Settings
):
    """Every table gets at least one batch; `finished` says whether something is left."""
    await given_destination(database)
    await given_events(database, 12)
    now = await database_clock(database) + timedelta(seconds=1)
    async with database.transaction() as session:
        await session.execute(update(outbox_messages).values(sent_at=now))
    later = now + timedelta(days=8)
    first = await prune(database, settings, later, batch=5, seconds=0)
    assert (first.messages, first.finished) == (5, False)
    second = await prune(database, settings, later, batch=5)
    assert (second.messages, second.finished) == (7, True)
    assert first.events + second.events == 12
    assert await message_rows(database) == []


async def test_replays_go_with_the_audit_log_but_never_unfinished(
    database: Database, settings: Settings
):
    """365 days after they were finished."""
    now = await database_clock(database)
    asked = {"actor": "t", "since": now, "until": now, "per_second": 1.0}
    async with database.transaction() as session:
        for finished in (now, None):
            await session.execute(insert(replays).values(id=uuid7(), **asked, finished_at=finished))
    assert (await prune(database, settings, now + timedelta(days=364))).replays == 0
    assert (await prune(database, settings, now + timedelta(days=366))).replays == 1
    assert (await prune(database, settings, now + timedelta(days=9999))).replays == 0
