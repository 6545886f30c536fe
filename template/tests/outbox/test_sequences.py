"""Sequences: taken before COMMIT, in commit order, without gaps and without deadlocks."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, text

from app.db.engine import Database
from app.outbox import replay
from app.outbox.event import Event
from app.outbox.message import Ordering, webhook_destination
from app.outbox.ordering import Order, set_order
from app.outbox.publish import publish, publish_all
from app.outbox.replay import ReplayRequest
from app.outbox.tables import events, ordering_keys, outbox_messages
from tests.outbox.factories import A, B, given_destination, given_endpoint, message_rows


def keyed(key: str | None, number: int = 0, event_type: str = "order.paid") -> Event:
    return Event(type=event_type, data={"number": number}, ordering_key=key)


async def lines(database: Database) -> dict[tuple[str, str], list[int]]:
    """The sequences of each (destination, key), lowest first."""
    m, e = outbox_messages.c, events.c
    query = select(m.destination, e.ordering_key, m.sequence).join(events, e.id == m.event_id)
    found: dict[tuple[str, str], list[int]] = {}
    async with database.read() as session:
        for destination, key, sequence in await session.execute(query.order_by(m.sequence)):
            found.setdefault((destination, key), []).append(sequence)
    return found


async def test_keyed_messages_get_a_sequence_for_each_destination_and_key(database: Database):
    """Also where the destination does not order: then they stay in the ordinary lane."""
    await given_destination(database, A)
    await given_destination(database, B)
    async with database.transaction() as session:
        await set_order(session, B, Order(Ordering.STRICT))
    async with database.transaction() as session:
        await publish_all(session, [keyed("x", 1), keyed(None, 2), keyed("y", 3), keyed("x", 4)])
        published = await publish(session, keyed("x", 5))
    assert published.messages == 2
    expected = {(A, "x"): [1, 2, 3], (A, "y"): [1], (B, "x"): [1, 2, 3], (B, "y"): [1]}
    assert {key: line for key, line in (await lines(database)).items() if key[1]} == expected
    rows = await message_rows(database)
    lanes = {(row["destination"], row["ordering_key"]) for row in rows if row["sequence"]}
    assert lanes == {(A, None), (B, "x"), (B, "y")}
    assert [row["ordering_key"] for row in rows if row["sequence"] is None] == [None, None]


async def test_the_sequence_follows_the_order_of_publishing_within_a_transaction(
    database: Database,
):
    """Whatever ids the messages get."""
    await given_destination(database, A)
    async with database.transaction() as session:
        await publish_all(session, [keyed("x", n) for n in range(50)])
        for n in range(50, 60):
            await publish(session, keyed("x", n))
    m, e = outbox_messages.c, events.c
    query = select(e.body).join(outbox_messages, e.id == m.event_id).order_by(m.sequence)
    async with database.read() as session:
        bodies = (await session.execute(query)).scalars().all()
    assert [f'"number":{n}}}'.encode() in body for n, body in enumerate(bodies)] == [True] * 60


async def test_a_rollback_burns_no_sequence(database: Database):
    """Neither of a transaction nor of a savepoint in it."""
    await given_destination(database, A)
    try:
        async with database.transaction() as session:
            await publish(session, keyed("x"))
            raise RuntimeError
    except RuntimeError:
        pass
    async with database.transaction() as session:
        await publish(session, keyed("x"))
        try:
            async with session.begin_nested():
                await publish(session, keyed("x"))
                await publish(session, keyed("y"))
                raise RuntimeError
        except RuntimeError:
            pass
        async with session.begin_nested():
            await publish(session, keyed("x"))
    assert await lines(database) == {(A, "x"): [1, 2]}
    async with database.read() as session:
        counters = (await session.execute(select(ordering_keys))).all()
    assert [tuple(row) for row in counters] == [(A, "x", 2)]


async def test_what_the_block_wrote_is_flushed_before_keys_are_locked(database: Database):
    """The counters are the last rows that a transaction locks."""
    await given_destination(database, A)
    async with database.transaction() as session:
        await publish(session, keyed("x"))
        rows = (await session.execute(select(outbox_messages))).all()
        assert rows == []
    assert len(await message_rows(database)) == 1


async def test_two_writers_with_opposite_key_orders_never_deadlock(database: Database):
    """200 rounds each; on PostgreSQL at the same time, on SQLite one after the other."""
    await given_destination(database, A)
    await given_destination(database, B)
    rounds = 200

    async def write(keys: list[str]) -> None:
        for n in range(rounds):
            async with database.transaction() as session:
                for key in keys:
                    await publish(session, keyed(key, n))

    await asyncio.gather(write(["x", "y", "z"]), write(["z", "y", "x"]))
    whole = list(range(1, 2 * rounds + 1))
    assert await lines(database) == {(d, k): whole for d in (A, B) for k in "xyz"}
    if not database.is_sqlite:
        async with database.read() as session:
            query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            assert (await session.execute(text(query))).scalar_one() == 0


async def test_a_watcher_never_sees_a_lower_sequence_after_a_higher_one(database: Database):
    """Sequence order is commit order, with rollbacks in between."""
    await given_destination(database, A)
    done = asyncio.Event()

    async def write(worker: int) -> None:
        for n in range(40):
            try:
                async with database.transaction() as session:
                    await publish(session, keyed("x", n))
                    if (n + worker) % 5 == 0:
                        raise RuntimeError
            except RuntimeError:
                pass

    async def watch() -> list[list[int]]:
        seen = []
        while not done.is_set():
            seen.append((await lines(database)).get((A, "x"), []))
            await asyncio.sleep(0)
        return seen

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(write(worker) for worker in range(6)))
    done.set()
    looks = await watching
    assert len(looks) > 10
    assert all(line == list(range(1, len(line) + 1)) for line in looks)
    assert (await lines(database))[(A, "x")] == list(range(1, 6 * 32 + 1))


@pytest.mark.parametrize("ordering", [Ordering.STRICT, Ordering.YIELD, Ordering.SKIP])
async def test_a_policy_moves_what_is_owed_into_its_lane_and_out_again(
    database: Database, ordering: Ordering
):
    """Nothing is lost; unkeyed messages and other destinations stay where they are."""
    await given_destination(database, A)
    await given_destination(database, B)
    async with database.transaction() as session:
        await publish_all(session, [keyed("x"), keyed("y"), keyed(None)])

    async def change(order: Order) -> set[tuple[str, str | None]]:
        async with database.transaction() as session:
            await set_order(session, A, order)
        rows = await message_rows(database)
        assert len(rows) == 6
        return {(row["destination"], row["ordering_key"]) for row in rows}

    in_order = await change(Order(ordering, 5))
    assert in_order == {(A, "x"), (A, "y"), (A, None), (B, None)}
    assert await change(Order(Ordering.STRICT)) == in_order
    assert await change(Order()) == {(A, None), (B, None)}


async def test_a_publisher_about_to_commit_is_waited_for(postgresql_url: str):
    """Else its message would stay outside the lane and overtake."""
    from tests.conftest import settings_for

    database = Database(settings_for(postgresql_url))
    await given_destination(database, A)
    from app.db.engine import BEFORE_COMMIT

    locked, go_on = asyncio.Event(), asyncio.Event()

    async def publishing() -> None:
        async with database.transaction() as session:
            await publish(session, keyed("x"))
            (step,) = session.info[BEFORE_COMMIT]
            await session.run_sync(step)
            locked.set()
            await go_on.wait()

    async def changing() -> None:
        async with database.transaction() as session:
            await set_order(session, A, Order(Ordering.STRICT))

    publisher = asyncio.create_task(publishing())
    await locked.wait()
    changer = asyncio.create_task(changing())
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    async with asyncio.timeout(60):
        while True:
            async with database.read() as session:
                if (await session.execute(waiting)).scalar_one():
                    break
    go_on.set()
    await asyncio.gather(publisher, changer)
    assert [row["ordering_key"] for row in await message_rows(database)] == ["x"]
    await database.dispose()


async def test_a_replay_takes_new_sequences_behind_what_is_owed(database: Database):
    """In the order of the events, also where the destination is an endpoint that orders."""
    endpoint = webhook_destination(await given_endpoint(database))
    await given_destination(database, endpoint)
    async with database.transaction() as session:
        await set_order(session, endpoint, Order(Ordering.STRICT))
        await publish_all(session, [*(keyed("x", n) for n in range(20)), keyed(None)])
    async with database.transaction() as session:
        await session.execute(outbox_messages.update().values(sent_at=outbox_messages.c.created_at))
    wanted = ReplayRequest(since=datetime.now(UTC) - timedelta(hours=1), until=datetime.now(UTC))
    async with database.transaction() as session:
        started = await replay.start(session, wanted, "a test")
    await replay.run(database, started.id)
    rows = [row for row in await message_rows(database) if row["sent_at"] is None]
    assert [row["sequence"] for row in rows if row["ordering_key"] is None] == [None]
    in_line = {row["sequence"]: row["event_id"] for row in rows if row["ordering_key"] == "x"}
    first = {r["sequence"]: r["event_id"] for r in await message_rows(database) if r["sent_at"]}
    assert in_line == {20 + place: first[place] for place in range(1, 21)}
