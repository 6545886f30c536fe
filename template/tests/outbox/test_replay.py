"""Replay: who gets a new message, in which order, and that it can be cut off anywhere."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import select, text, update

from app.api.tables import audit_log
from app.db.engine import Database
from app.errors import BadRequest, Conflict, NotFound
from app.ids import uuid7
from app.outbox import replay, replay_scan
from app.outbox.erasure import erase
from app.outbox.message import webhook_destination
from app.outbox.replay import Replay, ReplayReport, ReplayRequest
from app.outbox.subscriptions import subscribe
from app.outbox.tables import events, outbox_messages, replays
from tests.outbox.factories import (
    database_clock,
    given_destination,
    given_endpoint,
    given_events,
    message_rows,
)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FUTURE = datetime(2120, 1, 1, tzinfo=UTC)
m = outbox_messages.c


async def given_subscriber(database: Database, *patterns: str, tenant: str = "") -> UUID:
    """An enabled endpoint with these patterns."""
    endpoint_id = await given_endpoint(database, tenant=tenant)
    await given_destination(database, webhook_destination(endpoint_id), tenant, patterns or ("*",))
    return endpoint_id


async def all_sent(database: Database) -> None:
    """Every message there is was delivered."""
    async with database.transaction() as session:
        await session.execute(update(outbox_messages).values(sent_at=m.created_at))


async def replayed(database: Database, **wanted: object) -> Replay:
    """A replay carried out to its end."""
    async with database.transaction() as session:
        request = ReplayRequest(**({"since": LONG_AGO, "until": FUTURE} | wanted))
        started = await replay.start(session, request, "tester")
    await replay.run(database, started.id)
    async with database.read() as session:
        return await replay.find(session, started.id)


def counts(of: Replay | ReplayReport) -> tuple[int, int, int]:
    return of.matched, of.created, of.skipped


async def test_each_endpoint_that_had_a_message_gets_a_new_one_of_the_same_event(
    database: Database,
):
    """New id, same event, same destination; a dry run before it says the same number."""
    await given_subscriber(database)
    await given_subscriber(database, "order.*")
    await given_events(database, 3)
    await all_sent(database)
    old = await message_rows(database)
    dry = await replay.dry_run(database, ReplayRequest(since=LONG_AGO, until=FUTURE))
    assert counts(dry) == (6, 0, 0)
    assert await message_rows(database) == old
    done = await replayed(database)
    assert counts(done) == (6, 6, 0)
    assert done.finished_at is not None
    new = [row for row in await message_rows(database) if row["status"] == "pending"]
    assert not {row["id"] for row in new} & {row["id"] for row in old}
    pairs = [sorted((row["event_id"], row["destination"]) for row in rows) for rows in (new, old)]
    assert pairs[0] == pairs[1]
    assert all(row["attempts"] == 0 for row in new)


async def test_what_is_still_pending_is_skipped(database: Database):
    """The receiver gets it anyway."""
    await given_subscriber(database)
    await given_events(database, 2)
    assert counts(await replayed(database)) == (2, 0, 2)
    await all_sent(database)
    assert counts(await replayed(database)) == (2, 2, 0)
    assert counts(await replayed(database)) == (2, 0, 2)


async def test_closed_endpoints_erased_bodies_and_handlers_get_nothing(database: Database):
    """The first two are counted as skipped; another kind of destination is not matched at all."""
    endpoint_id = await given_subscriber(database)
    closed = await given_subscriber(database)
    await given_destination(database, "handler:receipt")
    await given_events(database, 2)
    await all_sent(database)
    async with database.transaction() as session:
        await session.execute(text("UPDATE endpoints SET status = 'disabled'"))
        session.info.clear()
    assert counts(await replayed(database)) == (4, 0, 4)
    async with database.transaction() as session:
        await session.execute(text("UPDATE endpoints SET status = 'enabled'"))
        first = (await session.execute(select(m.id).order_by(m.id).limit(1))).scalar_one()
        await erase(session, first)
    assert counts(await replayed(database)) == (4, 2, 2)
    async with database.transaction() as session:
        await session.execute(text("UPDATE endpoints SET status = 'deleted'"))
        for one, error, says in (
            (endpoint_id, Conflict, "deleted"),
            (closed, Conflict, "deleted"),
            (uuid7(), NotFound, "there is no endpoint"),
        ):
            wanted = ReplayRequest(since=LONG_AGO, until=FUTURE, endpoint_id=one)
            with pytest.raises(error, match=says):
                await replay.start(session, wanted, "t")


async def test_a_new_endpoint_gets_what_it_has_subscribed_to(database: Database):
    """Its tenant and its patterns decide, not whether it ever had a message."""
    await given_subscriber(database)
    await given_events(database, 2, "order.paid")
    await given_events(database, 3, "stock.low")
    await given_events(database, 4, "order.paid", tenant="other")
    await given_events(database, 5, "message.parked")
    new = await given_subscriber(database, "order.*", "message.x")
    everything = await given_subscriber(database, "*")
    assert counts(await replayed(database, endpoint_id=new)) == (2, 2, 0)
    assert counts(await replayed(database, endpoint_id=everything)) == (5, 5, 0)
    async with database.transaction() as session:
        await subscribe(session, webhook_destination(new), "", [])
    assert counts(await replayed(database, endpoint_id=new)) == (0, 0, 0)


async def test_each_filter_narrows_the_range(database: Database):
    """since <= created_at < until, type or pattern, tenant."""
    await given_subscriber(database)
    await given_subscriber(database, tenant="t")
    await given_events(database, 1, "order.paid")
    await given_events(database, 1, "order.created")
    await given_events(database, 1, "stock.low", tenant="t")
    await all_sent(database)
    async with database.read() as session:
        query = select(events.c.created_at).order_by(events.c.id)
        first, second, third = (await session.execute(query)).scalars()
    now = await database_clock(database)
    cases = [
        ({}, 3),
        ({"type": "order.*"}, 2),
        ({"type": "order.paid"}, 1),
        ({"type": "*"}, 3),
        ({"tenant": "t"}, 1),
        ({"tenant": ""}, 2),
        ({"tenant": "none"}, 0),
        ({"since": now - timedelta(hours=5), "until": first}, 0),
        ({"until": third}, sum(at < third for at in (first, second, third))),
        ({"since": third}, sum(at >= third for at in (first, second, third))),
    ]
    for wanted, expected in cases:
        request = ReplayRequest(**({"since": LONG_AGO, "until": FUTURE} | wanted))
        assert (await replay.dry_run(database, request)).matched == expected, wanted


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"since": FUTURE}, "since: "),
        ({"since": LONG_AGO, "until": LONG_AGO}, "since: "),
        ({"since": datetime(2020, 1, 1)}, "since: "),  # noqa: DTZ001
        ({"until": datetime(2020, 1, 1)}, "until: "),  # noqa: DTZ001
        ({"per_second": 0}, "per_second: "),
        ({"per_second": float("nan")}, "per_second: "),
        ({"type": "a b"}, "types: "),
        ({"tenant": "\x00"}, "tenant: "),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(database: Database, wanted, named: str):
    """With the field and the rule; nothing is stored."""
    with pytest.raises(BadRequest) as refused:
        await replayed(database, **wanted)
    assert refused.value.message.startswith(named)
    async with database.read() as session:
        assert (await session.execute(select(replays))).all() == []


async def test_the_messages_become_due_at_the_pace(database: Database, monkeypatch):
    """Also from one step to the next; and their ladder starts when they are due."""
    monkeypatch.setattr(replay_scan, "SCAN", 2)
    await given_subscriber(database)
    await given_events(database, 5)
    await all_sent(database)
    await replayed(database, per_second=0.1)
    new = [row for row in await message_rows(database) if row["status"] == "pending"]
    due = sorted(row["available_at"] for row in new)
    assert [(b - a).total_seconds() for a, b in itertools.pairwise(due)] == [10.0] * 4
    assert all(row["ladder_started_at"] == row["available_at"] for row in new)


async def test_a_replay_cut_off_anywhere_is_finished_by_whoever_comes(
    database: Database, monkeypatch
):
    """Steps are transactions; a relay takes the oldest unfinished one; no message is made twice."""
    monkeypatch.setattr(replay_scan, "SCAN", 2)
    await given_subscriber(database)
    await given_events(database, 7)
    await all_sent(database)
    async with database.transaction() as session:
        request = ReplayRequest(since=LONG_AGO, until=FUTURE, per_second=10_000)
        started = await replay.start(session, request, "tester")
    assert await replay.step(database, started.id)
    with monkeypatch.context() as broken:
        broken.setattr(replay, "park_erased", _fail)  # in the middle of a step, after its insert
        with pytest.raises(LookupError):
            await replay.step(database, started.id)
    while await replay.step(database):
        pass
    async with database.read() as session:
        done = await replay.find(session, started.id)
    assert counts(done) == (7, 7, 0)
    rows = await message_rows(database)
    made = [row["event_id"] for row in rows if row["status"] == "pending"]
    assert len(made) == len(set(made)) == 7
    assert not await replay.step(database, started.id)


async def _fail(*_: object) -> None:
    raise LookupError


async def test_steppers_at_the_same_time_make_no_message_twice(postgresql_url, monkeypatch):
    """One steps, the others wait or find nothing."""
    from tests.conftest import settings_for

    database = Database(settings_for(postgresql_url))
    monkeypatch.setattr(replay_scan, "SCAN", 3)
    await given_subscriber(database)
    await given_events(database, 40)
    await all_sent(database)
    async with database.transaction() as session:
        request = ReplayRequest(since=LONG_AGO, until=FUTURE)
        started = await replay.start(session, request, "tester")

    async def as_a_relay() -> None:
        while await replay.step(database):
            pass

    await asyncio.gather(replay.run(database, started.id), *(as_a_relay() for _ in range(4)))
    async with database.read() as session:
        done = await replay.find(session, started.id)
    await database.dispose()
    assert counts(done) == (40, 40, 0)


async def test_one_events_fan_out_is_never_cut_and_steps_stay_small(
    database: Database, monkeypatch
):
    """A step ends before it has too many pairs."""
    monkeypatch.setattr(replay_scan, "PAIRS", 4)
    for _ in range(3):
        await given_subscriber(database)
    await given_events(database, 4)
    await all_sent(database)
    request = ReplayRequest(since=LONG_AGO, until=FUTURE)
    sizes, after = [], None
    while True:
        async with database.read() as session:
            found = await replay_scan.scan(session, request, after)
        sizes.append(found.matched)
        after = found.last
        if after is None:
            break
    assert sizes == [3, 3, 3, 3]


async def test_the_end_of_a_replay_is_audited_with_its_counts(database: Database):
    """Who and how many; what was asked for stands in the caller's entry."""
    await given_subscriber(database)
    await given_events(database, 2)
    await all_sent(database)
    done = await replayed(database)
    async with database.read() as session:
        [entry] = (await session.execute(select(audit_log))).all()
    assert (entry.actor, entry.action, entry.target) == ("tester", "replay.finish", str(done.id))
    assert entry.detail == {"matched": 2, "created": 2, "skipped": 0}
    assert abs((entry.at - done.finished_at).total_seconds()) < 60
