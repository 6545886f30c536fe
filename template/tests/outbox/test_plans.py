"""How the database finds rows: by the partial indexes, however many rows were ever sent.

The plans are those of statements as the relay sends them, on a connection as it has, with a table
that was analysed and with one that never was.
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import Database
from app.outbox import bulk_retry, replay_scan
from app.outbox import statements_postgresql as postgresql
from app.outbox import statements_sqlite as sqlite
from app.outbox.driver import connect, fetch_in
from app.outbox.message import Status
from app.outbox.replay_scan import ReplayRequest
from app.outbox.statements_publish import UUID7_POSTGRESQL
from app.outbox.views import MessageFilter, list_messages
from tests.outbox.factories import A, B, given_destination, given_events
from tests.support.size import NIGHTLY

SENT, DUE = (1_000_000, 200_000) if NIGHTLY else (20_000, 2_000)

FILL_POSTGRESQL = f"""INSERT INTO outbox_messages (id, event_id, destination, sent_at, attempts)
SELECT gen_random_uuid(), (SELECT id FROM events LIMIT 1),
 CASE WHEN n % 2 = 0 THEN '{A}' ELSE '{B}' END,
 CASE WHEN n <= {SENT} THEN now() END, 1 FROM generate_series(1, {SENT + DUE}) n"""
FILL_SQLITE = f"""WITH RECURSIVE counter (n) AS (
 SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < {SENT + DUE})
INSERT INTO outbox_messages (id, event_id, destination, sent_at, attempts)
SELECT lower(hex(randomblob(16))), (SELECT id FROM events LIMIT 1),
 CASE WHEN n % 2 = 0 THEN '{A}' ELSE '{B}' END,
 CASE WHEN n <= {SENT} THEN '2026-01-01T00:00:00.000Z' END, 1 FROM counter"""

MANY_EVENTS = f"""INSERT INTO events (id, type, tenant, body, occurred_at)
SELECT {UUID7_POSTGRESQL}, 'a.b', '', body, occurred_at
FROM events, generate_series(1, {SENT}) n"""

on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def filled(database: Database) -> Database:
    """Many sent messages, some due; what the planner knows is up to the test."""
    await given_destination(database)
    await given_events(database)
    async with database.transaction() as session:
        fill = FILL_SQLITE if database.is_sqlite else FILL_POSTGRESQL
        await session.execute(text(fill))
    return database


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


async def explain(connection: asyncpg.Connection, statement: str, *arguments: Any) -> list[dict]:
    """The nodes of the plan that really ran, rolled back."""
    async with _rolled_back(connection):
        [row] = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
    return list(nodes(json.loads(row[0])[0]["Plan"]))


class _rolled_back:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._transaction = connection.transaction()

    async def __aenter__(self) -> None:
        await self._transaction.start()

    async def __aexit__(self, *_: object) -> None:
        await self._transaction.rollback()


@pytest.mark.parametrize("analysed", [True, False])
@on_postgresql
async def test_a_claim_reads_only_what_it_takes(filled: Database, analysed: bool):
    """By the due index, then by primary keys: no scan over the table, no sort of a backlog."""
    connection = await connect(filled, "plans", 30)
    try:
        if analysed:
            await connection.execute("ANALYZE")
        token = "00000000-0000-0000-0000-000000000001"
        ran = await explain(
            connection, postgresql.CLAIM, [A, B], [100, 100], [None, None], token, 60.0, None, 200
        )
    finally:
        await connection.close()
    assert [n for n in ran if n["Node Type"] == "Seq Scan"] == []
    [due] = [n for n in ran if n.get("Index Name") == "ix_outbox_messages_due"]
    assert due["Actual Rows"] * due["Actual Loops"] <= 210
    assert due.get("Rows Removed by Filter", 0) == 0
    scans = [n for n in ran if n["Node Type"] == "Index Scan"]
    assert max(n["Actual Rows"] * n["Actual Loops"] for n in scans) <= 210


@pytest.mark.parametrize("analysed", [True, False])
@on_postgresql
async def test_a_settle_reads_only_its_rows(filled: Database, analysed: bool):
    """By primary key, also while the planner knows nothing of the table."""
    connection = await connect(filled, "plans", 30)
    try:
        if analysed:
            await connection.execute("ANALYZE")
        ids = [
            row["id"]
            for row in await connection.fetch(
                "UPDATE outbox_messages SET claim_token = event_id WHERE sent_at IS NULL "
                "AND id IN (SELECT id FROM outbox_messages WHERE sent_at IS NULL LIMIT 200) "
                "RETURNING id"
            )
        ]
        token = await connection.fetchval("SELECT id FROM events LIMIT 1")
        ran = await explain(connection, postgresql.SETTLE, None, *settled_columns(ids, token))
    finally:
        await connection.close()
    assert [n for n in ran if n["Node Type"] == "Seq Scan"] == []
    read = [n for n in ran if n.get("Relation Name") == "outbox_messages"]
    assert max(n["Actual Rows"] * n["Actual Loops"] for n in read) <= 200


def settled_columns(ids: Sequence[UUID], token: UUID) -> list[list[Any] | None]:
    """The arrays of the settle statement: all delivered."""
    count = len(ids)
    return [
        [*ids], [token] * count, ["delivered"] * count, None, None, None, ["a.b"] * count,
        [0.1] * count, [1.0] * count, [204] * count, None, None, None,
    ]  # fmt: skip


CONDITIONS = {"Index Cond", "Recheck Cond"}


def relay_statements() -> dict[str, tuple[str, list[Any]]]:
    """What a relay sends for its messages, with arguments."""
    ids, token = [uuid4() for _ in range(200)], uuid4()
    held = [ids, [token] * 200]
    return {
        "claim": (postgresql.CLAIM, [[A, B], [100, 100], [None, None], token, 60.0, None, 200]),
        "claim ordered": (postgresql.CLAIM_ORDERED, [token, 60.0, None, ids]),
        "claim lone": (postgresql.CLAIM_LONE, [token, 60.0, None, None, [], False]),
        "settle": (postgresql.SETTLE, [None, *settled_columns(ids, token)]),
        "extend": (postgresql.EXTEND, [*held, 60.0, None]),
        "release": (postgresql.RELEASE, held),
        "settled before": (postgresql.SETTLED_BEFORE, [ids, [1] * 200]),
    }


async def given_knowledge(database: Database, knowledge: str) -> None:
    """Tables of some size, and what the planner was told of them, perhaps long ago."""
    await given_destination(database)
    await given_events(database)
    async with database.transaction() as session:
        if knowledge == "empty":
            await session.execute(text("TRUNCATE events, outbox_messages"))
        if knowledge == "many":
            await session.execute(text(FILL_POSTGRESQL))
        if knowledge != "nothing":
            await session.execute(text("ANALYZE"))


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("knowledge", ["nothing", "empty", "few", "many"])
@on_postgresql
async def test_no_plan_of_the_relay_walks_a_table(database: Database, knowledge: str, plan: str):
    """A plan is kept while the table grows: one that is good for ten rows must be for millions."""
    await given_knowledge(database, knowledge)
    connection = await connect(database, "plans", 30)
    try:
        await connection.execute(f"SET plan_cache_mode = {plan}")
        for name, (statement, arguments) in relay_statements().items():
            [row] = await connection.fetch(f"EXPLAIN (FORMAT JSON) {statement}", *arguments)
            read = [n for n in nodes(json.loads(row[0])[0]["Plan"]) if "Relation Name" in n]
            walked = [
                n for n in read if n["Node Type"] != "ModifyTable" and not CONDITIONS & n.keys()
            ]
            assert [(name, n["Relation Name"], n["Node Type"]) for n in walked] == []
    finally:
        await connection.close()


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("knowledge", ["nothing", "empty", "few", "many"])
@pytest.mark.parametrize("way", ["settle", "extend", "release", "settle in a session"])
@on_postgresql
async def test_what_follows_a_claim_locks_its_rows_in_the_order_of_their_ids(
    database: Database, knowledge: str, plan: str, way: str
):
    """Two relays that locked the same rows in two orders would deadlock, a second each time."""
    await given_knowledge(database, knowledge)
    statement, arguments = relay_statements()[way.removesuffix(" in a session")]
    statement = f"EXPLAIN (FORMAT JSON) {statement}"
    if way.endswith("session"):
        async with database.transaction() as session:
            await session.execute(text(f"SET LOCAL plan_cache_mode = {plan}"))
            [row] = await fetch_in(session, statement, *arguments)
    else:
        connection = await connect(database, "plans", 30)
        try:
            await connection.execute(f"SET plan_cache_mode = {plan}")
            [row] = await connection.fetch(statement, *arguments)
        finally:
            await connection.close()
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    [update] = [n for n in nodes(found[0]["Plan"]) if n.get("Operation") == "Update"]
    [join] = update["Plans"]
    rows, message = join["Plans"]
    assert join["Node Type"] == "Nested Loop"
    assert [n["Node Type"] for n in nodes(rows)] == ["Subquery Scan", "Sort", "Function Scan"]
    assert message["Index Name"] == "pk_outbox_messages"


@on_postgresql
async def test_the_skip_scan_reads_one_entry_per_destination(filled: Database):
    """Not the backlog: two thousand due rows, two destinations."""
    connection = await connect(filled, "plans", 30)
    try:
        ran = await explain(connection, postgresql.DUE_SCAN, None)
    finally:
        await connection.close()
    assert [n for n in ran if n["Node Type"] == "Seq Scan"] == []
    read = [n for n in ran if n.get("Relation Name") == "outbox_messages"]
    assert sum(n["Actual Rows"] * n["Actual Loops"] for n in read) <= 10
    [events] = [n for n in ran if n.get("Relation Name") == "events"]
    assert (events["Index Name"], events["Actual Loops"]) == ("pk_events", 2)


@on_sqlite
@pytest.mark.parametrize("statement", ["CLAIM", "CLAIM_LONE", "DUE_SCAN", "EXTEND"])
async def test_sqlite_finds_rows_by_index(filled: Database, statement: str):
    """Every step over the messages is a SEARCH; none is a SCAN of the table."""
    values = {
        "destinations": f'["{A}","{B}"]', "slots": 100, "left": 100, "token": "0" * 32,
        "now": "now", "lease": "+60 seconds", "rows": "[]", "again": None, "busy": "[]",
    }  # fmt: skip
    clause = getattr(sqlite, statement)
    wanted = {name: values[name] for name in clause.compile().params}
    async with filled.reader.connect() as connection:
        plan = await connection.execute(text(f"EXPLAIN QUERY PLAN {clause.text}"), wanted)
        steps = [row.detail for row in plan]
    over_messages = [
        step for step in steps if re.match(r"(SCAN|SEARCH) (outbox_messages|o)\b", step)
    ]
    assert over_messages
    for step in over_messages:
        assert step.startswith("SEARCH"), steps


@on_postgresql
async def test_a_step_of_a_replay_reads_a_slice_of_the_events(filled: Database):
    """By the primary key, from where it is."""
    async with filled.transaction() as session:
        await session.execute(text(MANY_EVENTS))
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    wanted = ReplayRequest(since=moment, until=moment.replace(year=2120))
    seen = await statements(filled, lambda session: replay_scan.scan(session, wanted, None))
    connection = await connect(filled, "plans", 30)
    try:
        await connection.execute("SET enable_seqscan = on")  # as the pool's connections have it
        await connection.execute("ANALYZE")
        [(statement, values)] = [one for one in seen if "FROM events" in one[0]]
        ran = await explain(connection, statement, *values)
    finally:
        await connection.close()
    [events] = [n for n in ran if n.get("Relation Name") == "events"]
    assert events["Index Name"] == "pk_events"
    assert events["Actual Rows"] * events["Actual Loops"] <= replay_scan.SCAN


@on_postgresql
async def test_a_batch_of_retries_reads_only_parked_rows(filled: Database):
    """By the index of what is parked, in its order: no sort, whatever was sent."""
    async with filled.transaction() as session:
        await session.execute(
            text("UPDATE outbox_messages SET parked_at = now(), parked_reason = 'rejected' "
                 "WHERE sent_at IS NULL")
        )  # fmt: skip

    async def look(session: AsyncSession) -> None:
        await session.execute(bulk_retry._after(query, None, lock=True))

    wanted = MessageFilter(status=Status.PARKED)
    query = bulk_retry._query(wanted, datetime(2120, 1, 1, tzinfo=UTC))
    [(statement, values)] = await statements(filled, look)
    connection = await connect(filled, "plans", 30)
    try:
        await connection.execute("SET enable_seqscan = on")
        await connection.execute("ANALYZE")
        ran = await explain(connection, statement, *values)
    finally:
        await connection.close()
    [parked] = [n for n in ran if n.get("Index Name") == "ix_outbox_messages_parked"]
    assert parked["Actual Rows"] * parked["Actual Loops"] <= bulk_retry.BATCH + 1
    assert [n for n in ran if n["Node Type"] == "Sort"] == []


@pytest.mark.parametrize("analysed", [True, False])
async def test_a_page_of_parked_messages_reads_only_parked_rows(filled: Database, analysed: bool):
    """In the order of their index on both databases: no sort, no walk over what was sent."""
    async with filled.transaction() as session:
        await session.execute(
            text("UPDATE outbox_messages SET parked_at = created_at, parked_reason = 'rejected' "
                 "WHERE sent_at IS NULL")
        )  # fmt: skip
        if analysed or not filled.is_sqlite:  # PostgreSQL does it by itself, SQLite never
            await session.execute(text("ANALYZE"))
    wanted = MessageFilter(status=Status.PARKED)
    async with filled.read() as session:
        cursor = (await list_messages(session, wanted, 50)).next_cursor

    async def look(session: AsyncSession) -> None:
        await list_messages(session, wanted, 50)
        await list_messages(session, wanted, 50, cursor)

    seen = await statements(filled, look)
    pages = [one for one in seen if "ORDER BY" in one[0]]
    assert len(pages) == 2
    for statement, values in pages:
        if filled.is_sqlite:
            await _goes_by_the_parked_index_on_sqlite(filled, statement, values)
        else:
            await _reads_a_page_of_parked_rows_on_postgresql(filled, statement, values)


async def _goes_by_the_parked_index_on_sqlite(
    database: Database, statement: str, values: tuple[Any, ...]
) -> None:
    async with database.reader.connect() as connection:
        plan = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        steps = [row.detail for row in plan]
    assert "ix_outbox_messages_parked" in steps[0], steps
    assert [step for step in steps if "TEMP B-TREE" in step] == []


async def _reads_a_page_of_parked_rows_on_postgresql(
    database: Database, statement: str, values: tuple[Any, ...]
) -> None:
    connection = await connect(database, "plans", 30)
    try:
        await connection.execute("SET enable_seqscan = on")  # as the pool's connections have it
        ran = await explain(connection, statement, *values)
    finally:
        await connection.close()
    [parked] = [n for n in ran if n.get("Index Name") == "ix_outbox_messages_parked"]
    assert parked["Actual Rows"] * parked["Actual Loops"] <= 52
    assert [n for n in ran if n["Node Type"] == "Sort"] == []


async def statements(database: Database, act: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """What an act sends to PostgreSQL, as the driver gets it."""
    seen: list[tuple[str, tuple[Any, ...]]] = []

    def note(_c: Any, _u: Any, statement: str, values: Any, _x: Any, _m: bool) -> None:
        seen.append((statement, values))

    engine = database.reader.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        async with database.read() as session:
            await act(session)
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return seen
