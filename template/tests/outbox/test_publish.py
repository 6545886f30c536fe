"""Publish: one event and its messages, in the caller's transaction, or nothing."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from app.db.engine import Database
from app.errors import BadRequest, TooLarge
from app.outbox.event import Event, check_type, encode_body, utc_time
from app.outbox.publish import OutsideTransaction, publish, publish_all
from app.outbox.subscriptions import candidates, check_pattern, patterns_of, subscribe
from app.outbox.tables import events
from tests.outbox.factories import A, B, given_destination, given_events, message_rows


async def test_an_event_owes_one_message_to_each_subscribed_destination(database: Database):
    """Two patterns of one destination make one message; another tenant's gets none."""
    await given_destination(database, A, patterns=["order.*", "order.paid", "*"])
    await given_destination(database, B, patterns=["order.item.*"])
    await given_destination(database, "test:c", tenant="other", patterns=["*"])
    [paid] = await given_events(database)
    [added] = await given_events(database, event_type="order.item.added")
    assert (paid.messages, added.messages) == (1, 2)
    rows = await message_rows(database)
    assert sorted((r["event_id"], r["destination"]) for r in rows) == sorted(
        [(paid.event_id, A), (added.event_id, A), (added.event_id, B)]
    )
    assert {(r["status"], r["attempts"]) for r in rows} == {("pending", 0)}


async def test_message_ids_are_uuid7_of_the_present(database: Database):
    """Retention prunes in id order, so ids must grow with time."""
    await given_destination(database)
    await given_events(database, 3)
    for row in await message_rows(database):
        identifier: UUID = row["id"]
        assert identifier.version == 7
        assert identifier.variant == "specified in RFC 4122"
        made = datetime.fromtimestamp((identifier.int >> 80) / 1000, UTC)
        assert abs(made - row["created_at"]) < timedelta(seconds=5)


async def test_the_stored_body_is_type_timestamp_and_data(database: Database):
    """Decimals are strings, times are UTC, and the tenant of '' is a tenant like any other."""

    @dataclass
    class Order:
        id: UUID
        total: Decimal

    order = Order(UUID(int=7), Decimal("10.50"))
    at = datetime.fromisoformat("2026-01-31T13:00:00+01:00")
    async with database.transaction() as session:
        await publish(session, Event(type="order.paid", data=[order, at], occurred_at=at))
    async with database.read() as session:
        row = (await session.execute(select(events))).one()
    assert row.body == (
        b'{"type":"order.paid","timestamp":"2026-01-31T12:00:00Z","data":'
        b'[{"id":"00000000-0000-0000-0000-000000000007","total":"10.50"},"2026-01-31T12:00:00Z"]}'
    )
    assert row.occurred_at == at


async def test_a_message_can_be_published_for_later(database: Database):
    """`available_at` of the event is that of its messages; no age limit runs before it."""
    await given_destination(database)
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    async with database.transaction() as session:
        await publish(session, Event(type="order.paid", data=1, available_at=later))
        await publish(session, Event(type="order.paid", data=1))
    rows = await message_rows(database)
    second, first = sorted(rows, key=lambda row: row["available_at"])
    assert (first["available_at"], first["ladder_started_at"]) == (later, later)
    assert second["ladder_started_at"] is None


async def test_g1_a_rollback_stores_no_event_and_no_message(database: Database):
    """G1: all of it or none of it."""
    await given_destination(database)

    async def publish_and_fail() -> None:
        async with database.transaction() as session:
            await publish(session, Event(type="order.paid", data=1))
            raise LookupError

    with pytest.raises(LookupError):
        await publish_and_fail()
    assert await message_rows(database) == []
    assert await _count_events(database) == 0


async def test_g1_a_commit_that_fails_raises_and_stores_nothing(database: Database):
    """G1: a deferred constraint fails inside COMMIT itself; nobody is woken."""
    await given_destination(database)
    id_type, nowhere = ("varchar(32)", "0" * 32) if database.is_sqlite else ("uuid", UUID(int=1))
    async with database.transaction() as session:
        deferred = "REFERENCES events (id) DEFERRABLE INITIALLY DEFERRED"
        await session.execute(text(f"CREATE TABLE broken (event_id {id_type} {deferred})"))
    woken: list[frozenset[str]] = []
    database.on_commit.append(woken.append)

    async def publish_and_break_the_commit() -> None:
        async with database.transaction() as session:
            await publish(session, Event(type="order.paid", data=1))
            await session.execute(text("INSERT INTO broken VALUES (:id)"), {"id": nowhere})

    with pytest.raises(SQLAlchemyError):
        await publish_and_break_the_commit()
    assert await message_rows(database) == []
    assert await _count_events(database) == 0
    assert woken == []


async def test_a_commit_wakes_the_destinations_it_wrote_to(database: Database):
    """After COMMIT, once, with every destination of the transaction."""
    await given_destination(database, A)
    await given_destination(database, B)
    woken: list[frozenset[str]] = []
    database.on_commit.append(woken.append)
    await given_events(database, 2)
    assert woken == [frozenset({A, B})]


async def test_publish_outside_transaction_raises(database: Database):
    """Nothing would commit it."""
    async with database.read() as session:
        with pytest.raises(OutsideTransaction, match=r"outside Database\.transaction"):
            await publish(session, Event(type="order.paid", data=1))


async def test_a_batch_is_stored_in_order_or_not_at_all(database: Database):
    """One bad event refuses the batch; nothing of it stays."""
    await given_destination(database)
    good, bad = Event(type="a.b", data=1), Event(type="a.b", data=float("nan"))
    with pytest.raises(BadRequest):
        async with database.transaction() as session:
            await publish_all(session, [good, bad])
    assert await _count_events(database) == 0
    published = await given_events(database, 20)
    assert [p.messages for p in published] == [1] * 20


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (Event(type="order..paid", data=1), "type: 'order..paid'"),
        (Event(type="", data=1), "type: ''"),
        (Event(type="a" * 129, data=1), "type: "),
        (Event(type="order.paid\n", data=1), "type: "),
        (Event(type="a", data={"x": [1, "a\x00b"]}), "data.x[1]: "),
        (Event(type="a", data={"k\x00": 1}), "data."),
        (Event(type="a", data={"x": float("inf")}), "data.x: inf"),
        (Event(type="a", data={"x": Decimal("NaN")}), "data.x: NaN"),
        (Event(type="a", data="\ud800"), "data: "),
        (Event(type="a", data=datetime(2026, 1, 1)), "data: 2026-01-01"),  # noqa: DTZ001
        (Event(type="a", data=object()), "data: "),
        (Event(type="a", data=1, tenant="x\x00"), "tenant: "),
        (Event(type="a", data=1, tenant="x" * 129), "tenant: "),
        (Event(type="a", data=1, ordering_key=""), "ordering_key: "),
        (Event(type="a", data=1, ordering_key="\x00"), "ordering_key: "),
        (Event(type="a", data=1, occurred_at=datetime(2026, 1, 1)), "occurred_at: "),  # noqa: DTZ001
        (Event(type="a", data=1, available_at=datetime(2026, 1, 1)), "available_at: "),  # noqa: DTZ001
    ],
)
def test_what_json_or_the_database_cannot_hold_is_refused(event: Event, named: str):
    """A BadRequest that names the path of the value, before anything is written."""
    with pytest.raises(BadRequest) as refused:
        encode_body(event, utc_time("occurred_at", event.occurred_at) or datetime.now(UTC))
    assert refused.value.message.startswith(named)


def test_deep_and_cyclic_data_is_refused():
    """No recursion limit is ever reached by a caller's data."""
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    cycle: dict = {}
    cycle["again"] = cycle
    for data in (deep, cycle):
        with pytest.raises(BadRequest, match="nested deeper"):
            encode_body(Event(type="a", data=data), datetime.now(UTC))


def test_a_body_over_the_limit_is_too_large():
    """413, with the size and the limit."""
    with pytest.raises(TooLarge, match="the limit is 1000"):
        encode_body(Event(type="a", data="x" * 1000), datetime.now(UTC), 1000)


def test_a_type_matches_its_own_name_every_prefix_and_everything():
    """The candidates of publish, exactly."""
    assert candidates("order.item.added") == ["order.item.added", "order.item.*", "order.*", "*"]
    assert candidates("order") == ["order", "*"]


def test_operator_events_are_never_matched_by_everything():
    """`*` leaves `endpoint.*` and `message.*` out."""
    assert candidates("endpoint.disabled") == ["endpoint.disabled", "endpoint.*"]
    assert candidates("message.parked") == ["message.parked", "message.*"]


@pytest.mark.parametrize(
    "pattern", ["", ".*", "order.", "order.*.paid", "**", "order*", "a b", "*.*"]
)
def test_a_pattern_that_is_none_is_refused(pattern: str):
    """Exact, a trailing `.*`, or `*`."""
    with pytest.raises(BadRequest, match="is not a pattern"):
        check_pattern(pattern)


async def test_subscribing_again_replaces_the_patterns(database: Database):
    """The newest list counts."""
    await given_destination(database, A, patterns=["a", "b.*"])
    await given_destination(database, A, patterns=["b.*", "c"])
    async with database.read() as session:
        assert await patterns_of(session, [A, B]) == {A: ("b.*", "c"), B: ()}
    async with database.transaction() as session:
        await subscribe(session, A, "", [])
    assert [p.messages for p in await given_events(database)] == [0]


async def _count_events(database: Database) -> int:
    async with database.read() as session:
        return (await session.execute(text("SELECT count(*) FROM events"))).scalar_one()


def test_types_of_128_characters_are_well_formed():
    """The limit is inclusive."""
    assert check_type("a" * 128) == "a" * 128
