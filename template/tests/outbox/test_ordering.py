"""The ordered lane: who waits for whom, under each policy, on the real store."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import update

from app.db.engine import Database
from app.outbox.backlog import backlog
from app.outbox.event import Event
from app.outbox.message import (
    Claim,
    Deferred,
    Delivered,
    ErrorKind,
    Failed,
    Ordering,
    ParkedReason,
    Result,
)
from app.outbox.messages import dismiss, get_message, retry
from app.outbox.ordering import Order, set_order
from app.outbox.policy import GiveBack, Park, RetryIn, Sent, Transition
from app.outbox.publish import publish_all
from app.outbox.store import Settlement, Store, Wanted
from app.outbox.tables import outbox_messages
from tests.outbox.factories import A, given_destination, message_rows

NOW = datetime.now(UTC) + timedelta(days=1)  # later than any clock of this run
FAILED = Failed(ErrorKind.STATUS, "answered 500")


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    store = Store(database)
    yield store
    await store.close()


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


async def given(database: Database, ordering: Ordering, keys: str, gap: float = 60.0) -> None:
    """A destination that orders, and one message for each letter."""
    await given_destination(database)
    async with database.transaction() as session:
        await set_order(session, A, Order(ordering, gap))
    await given_messages(database, keys)


async def given_messages(database: Database, keys: str, available_at: datetime | None = None):
    batch = [
        Event(
            type="order.paid",
            data=None,
            ordering_key=None if key == "-" else key,
            available_at=available_at,
        )
        for key in keys
    ]
    async with database.transaction() as session:
        await publish_all(session, batch)


async def claimed(store: Store, seconds: float = 0.0, slots: int = 50) -> dict[int | None, Claim]:
    """What goes at that time, by sequence; the relay scans first."""
    await store.due(at(seconds))
    found = await store.claim([Wanted(A, slots)], at(seconds))
    return {claim.sequence: claim for claim in found.claims}


async def settled(store: Store, claim: Claim, to: Transition, seconds: float = 0.0) -> None:
    outcome = {Sent: Delivered(), GiveBack: Deferred("busy")}.get(type(to), FAILED)
    settlement = Settlement(Result(claim, outcome, 0.0, 0.0), to)
    assert await store.settle([settlement], at(seconds)) == {claim.message_id}


async def park(store: Store, claim: Claim, seconds: float = 0.0) -> None:
    await settled(store, claim, Park(ParkedReason.REJECTED), seconds)


async def id_of(database: Database, sequence: int) -> UUID:
    return next(r["id"] for r in await message_rows(database) if r["sequence"] == sequence)


EVERY = pytest.mark.parametrize("ordering", [Ordering.STRICT, Ordering.YIELD, Ordering.SKIP])
PATIENT = pytest.mark.parametrize("ordering", [Ordering.STRICT, Ordering.SKIP])


@EVERY
async def test_one_message_of_each_key_goes_at_a_time(
    database: Database, store: Store, ordering: Ordering
):
    """The lowest first; the next when it has been sent. Unkeyed ones wait for nobody."""
    await given(database, ordering, "xxxy--")
    first = await store.due(at(0)) and await store.claim([Wanted(A, 50)], at(0))
    assert sorted(str(claim.sequence) for claim in first.claims) == ["1", "1", "None", "None"]
    assert await claimed(store, 1) == {}
    (x,) = [c for c in first.claims if c.sequence and c.message_id == await id_of_first_x(database)]
    await settled(store, x, Sent(), 1)
    second = await claimed(store, 2)
    assert list(second) == [2]
    assert await claimed(store, 3) == {}
    await settled(store, second[2], Sent(), 3)
    assert list(await claimed(store, 4)) == [3]


async def id_of_first_x(database: Database) -> UUID:
    rows = await message_rows(database)
    return next(r["id"] for r in rows if (r["ordering_key"], r["sequence"]) == ("x", 1))


@PATIENT
async def test_a_message_that_failed_holds_up_its_key_until_it_is_sent(
    database: Database, store: Store, ordering: Ordering
):
    """Also while it waits for its next attempt, however long."""
    await given(database, ordering, "xx")
    claim = (await claimed(store))[1]
    await settled(store, claim, RetryIn(1800))
    assert await claimed(store, 1799) == {}
    again = await claimed(store, 1801)
    assert list(again) == [1]
    assert again[1].attempt == 2
    await settled(store, again[1], Sent(), 1802)
    assert list(await claimed(store, 1803)) == [2]


async def test_strict_a_parked_message_blocks_until_it_is_retried(database: Database, store: Store):
    """Days later it still does; the retry goes first."""
    await given(database, Ordering.STRICT, "xxy")
    claims = await claimed(store)
    await park(store, next(c for c in claims.values()))
    rows = {r["status"]: r for r in await message_rows(database) if r["sequence"] == 1}
    parked = rows["parked"]
    key = parked["ordering_key"]
    assert await claimed(store, 30) == {}
    async with database.transaction() as session:
        await retry(session, parked["id"])
    if key == "x":
        assert list(await claimed(store, 31)) == [1]


async def test_strict_a_dismissed_message_releases_its_key(database: Database, store: Store):
    """And only its own message."""
    await given(database, Ordering.STRICT, "xxx")
    await park(store, (await claimed(store))[1])
    assert await claimed(store, 86400) == {}
    async with database.transaction() as session:
        await dismiss(session, await id_of(database, 1), "not needed")
    assert list(await claimed(store, 86401)) == [2]


async def test_strict_the_whole_range_is_looked_at(database: Database, store: Store):
    """44 does not pass because 43 is done: 42 is open."""
    await given(database, Ordering.STRICT, "xxxx")
    await park(store, (await claimed(store))[1])
    async with database.transaction() as session:  # as if it had once been sent out of order
        done = update(outbox_messages).where(outbox_messages.c.sequence.in_([2, 3]))
        await session.execute(done.values(sent_at=outbox_messages.c.created_at))
    assert await claimed(store, 60) == {}


async def test_skip_a_parked_message_releases_at_once_a_pending_one_does_not(
    database: Database, store: Store
):
    """And the message that went is counted as a gap."""
    await given(database, Ordering.SKIP, "xxx")
    claim = (await claimed(store))[1]
    await settled(store, claim, RetryIn(10))
    assert await claimed(store, 9) == {}
    await park(store, (await claimed(store, 11))[1], 11)
    await store.due(at(12))
    found = await store.claim([Wanted(A, 50)], at(12))
    assert ([claim.sequence for claim in found.claims], found.passed) == ([2], ("skip",))
    assert await claimed(store, 13) == {}
    async with database.transaction() as session:
        await retry(session, await id_of(database, 1))
    assert list(await claimed(store, 14)) == [1]


async def test_yield_a_message_goes_after_the_gap_from_its_own_first_wait(
    database: Database, store: Store
):
    """Counted from when both it and what holds it up were there, not from when it was stored."""
    await given(database, Ordering.YIELD, "xx", gap=60)
    claim = (await claimed(store, 100))[1]
    await settled(store, claim, RetryIn(1800), 100)
    await given_messages(database, "x", available_at=at(130))
    assert await claimed(store, 159) == {}
    await store.due(at(161))
    found = await store.claim([Wanted(A, 50)], at(161))
    assert ([claim.sequence for claim in found.claims], found.passed) == ([2], ("yield",))
    await settled(store, found.claims[0], Sent(), 162)
    assert await claimed(store, 189) == {}
    third = await claimed(store, 191)
    assert list(third) == [3]
    await settled(store, third[3], Sent(), 192)
    late = await claimed(store, 1901)
    assert list(late) == [1]


async def test_yield_a_long_line_that_moves_is_no_reason_to_overtake(
    database: Database, store: Store
):
    """The gap is not measured from publish: a backlog older than it stays in order."""
    await given(database, Ordering.YIELD, "xxxx", gap=1)
    for number in range(1, 5):
        seconds = number * 100.0
        claims = await claimed(store, seconds)
        assert list(claims) == [number]
        assert await claimed(store, seconds + 50) == {}
        await settled(store, claims[number], Sent(), seconds + 50)


async def test_yield_one_that_went_and_failed_is_passed_by_the_next_after_its_gap(
    database: Database, store: Store
):
    """Two are stuck: the third waits for both, and goes; their own turns come again."""
    await given(database, Ordering.YIELD, "xxx", gap=60)
    await park(store, (await claimed(store))[1])
    second = (await claimed(store, 61))[2]
    assert second.attempt == 1
    await settled(store, second, RetryIn(1000), 61)
    assert await claimed(store, 120) == {}
    assert list(await claimed(store, 122)) == [3]
    assert list(await claimed(store, 1062)) == [2]


async def test_yield_many_parked_messages_do_not_hide_the_next(database: Database, store: Store):
    """However many were given up, the walk ends at the first that was not."""
    await given(database, Ordering.YIELD, "x" * 40, gap=1)
    for number in range(1, 40):
        claims = await claimed(store, 2.0 * number)
        assert list(claims) == [number]
        await park(store, claims[number], 2.0 * number)
    assert list(await claimed(store, 100)) == [40]


async def test_a_message_for_later_holds_up_its_key(database: Database, store: Store):
    """What was published first goes first, also when it is due later."""
    await given(database, Ordering.STRICT, "")
    await given_messages(database, "x", available_at=at(100))
    await given_messages(database, "x")
    assert await claimed(store, 99) == {}
    assert list(await claimed(store, 101)) == [1]


async def test_a_deferral_holds_up_its_key_and_spends_nothing(database: Database, store: Store):
    """It comes back first."""
    await given(database, Ordering.STRICT, "xx")
    await settled(store, (await claimed(store))[1], GiveBack(5))
    assert await claimed(store, 4) == {}
    again = await claimed(store, 6)
    assert [claim.attempt for claim in again.values()] == [1]
    assert list(again) == [1]


@EVERY
async def test_a_lost_claim_keeps_its_place(database: Database, store: Store, ordering: Ordering):
    """It is claimed alone from then on, and its key waits."""
    await given(database, ordering, "xx")
    assert list(await claimed(store)) == [1]
    assert await claimed(store, 61) == {}
    lone = await store.claim_lone(at(62))
    assert [claim.sequence for claim in lone.claims] == [1]
    assert await claimed(store, 63) == {}
    await settled(store, lone.claims[0], Sent(), 63)
    assert list(await claimed(store, 64)) == [2]


async def test_two_lost_claims_of_a_key_go_in_order(database: Database, store: Store):
    """They had been claimed before the destination ordered."""
    await given_destination(database)
    await given_messages(database, "xx")
    found = await store.claim([Wanted(A, 5)], at(0))
    assert len(found.claims) == 2
    async with database.transaction() as session:
        await set_order(session, A, Order(Ordering.STRICT))
    for seconds in (61, 62):
        await claimed(store, seconds)
    first = await store.claim_lone(at(70))
    if not first.claims:
        first = await store.claim_lone(at(71))
    assert [claim.sequence for claim in first.claims] == [1]
    assert (await store.claim_lone(at(72))).claims == []


@EVERY
async def test_switching_a_policy_on_keeps_what_waits_in_order(
    database: Database, store: Store, ordering: Ordering
):
    """Messages that were published before; one that is out at the moment is waited for."""
    await given_destination(database)
    await given_messages(database, "xxx")
    out = (await store.claim([Wanted(A, 1)], at(0))).claims[0]
    async with database.transaction() as session:
        await set_order(session, A, Order(ordering))
    sequence = next(
        r["sequence"] for r in await message_rows(database) if r["id"] == out.message_id
    )
    goes = await claimed(store, 1)
    assert list(goes) == ([] if sequence == 1 else [1])


@PATIENT
async def test_switching_it_off_frees_everything(
    database: Database, store: Store, ordering: Ordering
):
    """Nothing stays behind in a lane that is no longer read."""
    await given(database, ordering, "xxxyy")
    async with database.transaction() as session:
        await set_order(session, A, Order())
    found = await store.claim([Wanted(A, 50)], at(1))
    assert [claim.sequence for claim in found.claims] == [None] * 5


async def test_neither_lane_starves_the_other(database: Database, store: Store):
    """One slot, both lanes full: each gets its turns."""
    await given(database, Ordering.STRICT, "abcdefgh--------")
    taken = []
    for _ in range(8):
        taken += await claimed(store, 1, slots=1)
    assert (taken.count(1), taken.count(None)) == (4, 4)


async def test_a_look_goes_on_where_the_last_one_ended(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """The first keys don't starve the last, though only few fit into one claim."""
    keys = "abcdefghij"
    await given(database, Ordering.STRICT, keys * 3)
    seen = []
    for second in range(1, 31):
        claims = list((await claimed(store, second, slots=1)).values())
        for claim in claims:
            rows = await message_rows(database)
            seen += [r["ordering_key"] for r in rows if r["id"] == claim.message_id]
            await settled(store, claim, Sent(), second)
    assert set(seen[:12]) == set(keys)


async def test_a_waiting_message_says_which_one_it_waits_for(database: Database, store: Store):
    """Its place and its key are shown with it."""
    await given(database, Ordering.STRICT, "xx")
    await park(store, (await claimed(store))[1])
    first, second = await id_of(database, 1), await id_of(database, 2)

    async def why(message_id: UUID) -> str | None:
        async with database.read() as session:
            shown = await get_message(session, message_id)
        assert shown.ordering_key == "x"
        return shown.waits_for

    waits = f"message {first}, 1 of the same ordering key"
    assert await why(second) == f"{waits}, which is parked: retry or dismiss it"
    assert await why(first) is None
    async with database.transaction() as session:
        await set_order(session, A, Order(Ordering.YIELD, 30))
    assert await why(second) == f"{waits}, for 30 s at most"
    async with database.transaction() as session:
        await set_order(session, A, Order(Ordering.SKIP))
    assert await why(second) is None


@pytest.mark.parametrize(("ordering", "blocked"), [("strict", 1), ("yield", 0), ("skip", 0)])
async def test_keys_that_are_blocked_are_counted(
    database: Database, store: Store, ordering: str, blocked: int
):
    """By a parked message, as long as others wait for it; the alert is on that number."""
    await given(database, Ordering(ordering), "xxyzz")
    claims = (await store.due(at(0)) and await store.claim([Wanted(A, 50)], at(0))).claims
    keys = {row["id"]: row["ordering_key"] for row in await message_rows(database)}
    for claim in claims:
        await (
            park(store, claim) if keys[claim.message_id] in "xy" else settled(store, claim, Sent())
        )
    async with database.read() as session:
        assert (await backlog(session)).blocked_keys == blocked


async def test_the_oldest_due_message_may_be_one_of_an_ordering_key(database: Database):
    """Else the alert on a stopped relay would not fire; what waits in line does not count."""
    await given(database, Ordering.STRICT, "xx")
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    async with database.transaction() as session:
        old = update(outbox_messages).where(outbox_messages.c.sequence == 2)
        await session.execute(old.values(available_at=hour_ago))
    async with database.read() as session:
        assert (await backlog(session)).oldest_due_seconds < 600
    async with database.transaction() as session:
        await session.execute(update(outbox_messages).values(available_at=hour_ago))
    async with database.read() as session:
        assert (await backlog(session)).oldest_due_seconds > 3000
