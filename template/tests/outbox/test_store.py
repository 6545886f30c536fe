"""The relay's half against real databases: who may claim, who may write, what is written."""

import asyncio
from datetime import datetime, timedelta
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import text

from app.db.engine import Database
from app.outbox.message import (
    Claim,
    Deferred,
    Delivered,
    ErrorKind,
    Failed,
    Outcome,
    ParkedReason,
    Response,
    Result,
)
from app.outbox.policy import GiveBack, Park, RetryIn, Sent, Transition
from app.outbox.store import Settlement, Store, Wanted
from tests.outbox.factories import (
    A,
    B,
    attempt_rows,
    database_clock,
    given_destination,
    given_events,
    message_rows,
)

LEASE = timedelta(seconds=60)
PAST_LEASE = LEASE + timedelta(seconds=1)
TOLERANCE = timedelta(milliseconds=2)


@pytest.fixture
async def store(database: Database):
    store = Store(database)
    yield store
    await store.close()


@pytest.fixture
async def now(database: Database) -> datetime:
    """A moment after everything that the test publishes; moved, never waited for."""
    return await database_clock(database) + timedelta(minutes=1)


async def claim(store: Store, now: datetime, slots: int = 100, destination: str = A) -> list[Claim]:
    return (await store.claim([Wanted(destination, slots)], now)).claims


SENT, DELIVERED = Sent(), Delivered()


def settled(
    claim: Claim, transition: Transition = SENT, outcome: Outcome = DELIVERED
) -> Settlement:
    return Settlement(Result(claim, outcome, 0.5, 0.25), transition)


async def test_a_claim_takes_what_there_is_room_for_oldest_first(database, store, now):
    """At most `slots` of each destination, in due order, with the event's bytes."""
    await given_destination(database, A)
    await given_destination(database, B)
    published = await given_events(database, 5)
    rows = sorted(await message_rows(database), key=lambda r: (r["available_at"], r["id"]))
    found = await store.claim([Wanted(A, 2), Wanted(B, 3)], now)
    for destination, slots in ((A, 2), (B, 3)):
        claimed = [c.message_id for c in found.claims if c.destination == destination]
        assert claimed == [r["id"] for r in rows if r["destination"] == destination][:slots]
    first = next(c for c in found.claims if c.destination == A)
    number = [p.event_id for p in published].index(first.event_id)
    assert msgspec.json.decode(first.body)["data"] == {"number": number}
    assert (first.type, first.tenant, first.attempt, first.rung) == ("order.paid", "", 1, 1)
    assert not first.lone
    assert 59 < first.age_seconds < 70
    rows = await message_rows(database)
    assert sorted(r["status"] for r in rows) == ["claimed"] * 5 + ["pending"] * 5
    row = next(r for r in rows if r["id"] == first.message_id)
    assert (row["claim_token"], row["attempts"]) == (first.token, 1)
    assert abs(row["lease_until"] - now - LEASE) < TOLERANCE


async def test_g2_a_live_lease_is_never_claimed(database, store, now):
    """G2: not a moment before it runs out, not by anybody."""
    await given_destination(database)
    await given_events(database, 3)
    assert len(await claim(store, now)) == 3
    assert await claim(store, now + LEASE - timedelta(milliseconds=5)) == []
    assert (await store.claim_lone(now + LEASE - timedelta(milliseconds=5))).claims == []


async def test_a_message_that_is_not_due_is_not_claimed(database, store, now):
    """`available_at` decides, on the database's clock."""
    await given_destination(database)
    await given_events(database)
    assert await claim(store, now - timedelta(minutes=2)) == []
    assert len(await claim(store, now)) == 1


async def test_concurrent_claimers_claim_each_message_once(database, now):
    """Four relays at once over two destinations."""
    for destination in (A, B):
        await given_destination(database, destination)
    await given_events(database, 100)
    stores = [Store(database) for _ in range(4)]
    orders = [[Wanted(A, 7), Wanted(B, 7)], [Wanted(B, 7), Wanted(A, 7)]]

    async def drain(store: Store, wanted: list[Wanted]) -> list[Claim]:
        taken: list[Claim] = []
        while claims := (await store.claim(wanted, now)).claims:
            taken += claims
        return taken

    found = await asyncio.gather(*(drain(s, orders[i % 2]) for i, s in enumerate(stores)))
    ids = [c.message_id for claims in found for c in claims]
    assert len(ids) == 200
    assert len(set(ids)) == 200
    for store in stores:
        await store.close()


async def test_g3_a_lost_settle_writes_nothing(database, store, now):
    """G3: 100 held, 40 taken over by another claim: 60 written, nothing at all for the 40."""
    await given_destination(database)
    await given_events(database, 100)
    held = await claim(store, now)
    later = now + PAST_LEASE
    assert len((await store.claim([Wanted(A, 40)], later)).reclaimed) == 40
    taken = [(await store.claim_lone(later)).claims[0] for _ in range(40)]
    before = await message_rows(database)
    written = await store.settle([settled(c) for c in held], later)
    lost = {c.message_id for c in taken}
    assert written == {c.message_id for c in held} - lost
    untouched = [r for r in await message_rows(database) if r["id"] in lost]
    assert untouched == [r for r in before if r["id"] in lost]
    delivered = [a for a in await attempt_rows(database) if a["outcome"] == "delivered"]
    assert {a["message_id"] for a in delivered} == written


@pytest.mark.parametrize("write", ["settle", "extend", "release"])
async def test_g3_only_the_token_that_claimed_may_write(database, store, now, write):
    """G3: a stranger's token changes nothing."""
    await given_destination(database)
    await given_events(database)
    [mine] = await claim(store, now)
    stranger = msgspec.structs.replace(mine, token=uuid4())
    before = await message_rows(database)
    argument = settled(stranger) if write == "settle" else stranger
    assert await getattr(store, write)([argument]) == set()
    assert await message_rows(database) == before
    assert await attempt_rows(database) == []


async def test_g3_a_claim_settles_once(database, store, now):
    """G3: what is sent, parked or given back can't be settled again by the same claim."""
    await given_destination(database)
    await given_events(database, 3)
    claims = await claim(store, now)
    ends: list[Transition] = [Sent(), Park(ParkedReason.REJECTED), RetryIn(1)]
    await store.settle([settled(c, t) for c, t in zip(claims, ends, strict=True)], now)
    before = await message_rows(database)
    assert await store.settle([settled(c) for c in claims], now) == set()
    assert await message_rows(database) == before


async def test_a_late_outcome_that_nobody_has_reclaimed_counts(database, store, now):
    """Settle looks at the token, never at the lease."""
    await given_destination(database)
    await given_events(database)
    [held] = await claim(store, now)
    assert await store.settle([settled(held)], now + 10 * LEASE) == {held.message_id}


async def test_each_transition_writes_its_own_state(database, store, now):
    """Sent, retry, parked, given back, given back into parked; a log line for real attempts."""
    await given_destination(database)
    await given_events(database, 5)
    claims = await claim(store, now)
    response = Response(503, b"Server: x\r\n", b"busy")
    failed = Failed(ErrorKind.STATUS, "answered 503\x00\ud800" + "x" * 2000, response)
    batch = [
        settled(claims[0], Sent(), Delivered(Response(204))),
        settled(claims[1], RetryIn(5.5), failed),
        settled(claims[2], Park(ParkedReason.EXHAUSTED), failed),
        settled(claims[3], GiveBack(2.0), Deferred("at its rate limit", 2.0)),
        settled(claims[4], GiveBack(0, ParkedReason.ENDPOINT_DISABLED), Deferred("disabled")),
    ]
    assert await store.settle(batch, now) == {c.message_id for c in claims}
    sent, retry, parked, back, gone = await message_rows(database)
    assert (sent["status"], sent["attempts"], sent["last_error"]) == ("sent", 1, None)
    assert (retry["status"], retry["attempts"]) == ("pending", 1)
    assert abs(retry["available_at"] - now - timedelta(seconds=5.5)) < TOLERANCE
    assert retry["last_error"].startswith("answered 503?xxx")
    assert len(retry["last_error"]) == 1000
    assert (parked["status"], parked["parked_reason"]) == ("parked", "exhausted")
    assert (back["status"], back["attempts"], back["last_error"]) == (
        "pending", 0, "at its rate limit",
    )  # fmt: skip
    assert abs(back["available_at"] - now - timedelta(seconds=2)) < TOLERANCE
    assert (gone["status"], gone["attempts"], gone["parked_reason"]) == (
        "parked", 0, "endpoint_disabled",
    )  # fmt: skip
    assert all(r["claim_token"] is None and r["lease_until"] is None for r in (retry, back, gone))
    log = await attempt_rows(database)
    assert [(a["number"], a["outcome"], a["status_code"]) for a in log] == [
        (1, "delivered", 204), (1, "failed", 503), (1, "failed", 503),
    ]  # fmt: skip
    assert (log[1]["error_kind"], log[1]["response_body"]) == ("status", b"busy")
    assert log[1]["duration_ms"] == 250
    assert abs(log[1]["started_at"] - now + timedelta(seconds=0.5)) < TOLERANCE


async def test_extend_keeps_what_is_held_and_nothing_else(database, store, now):
    """An expired lease that nobody took is revived; what was taken over is not."""
    await given_destination(database)
    await given_events(database, 10)
    held = await claim(store, now)
    later = now + PAST_LEASE
    assert len((await store.claim([Wanted(A, 3)], later)).reclaimed) == 3
    kept = await store.extend(held, later)
    assert len(kept) == 7
    assert await claim(store, later + LEASE - timedelta(seconds=1)) == []
    assert {r["status"] for r in await message_rows(database) if r["id"] in kept} == {"claimed"}


async def test_release_gives_the_attempt_back(database, store, now):
    """What was never started is at once everybody's, as if it had not been claimed."""
    await given_destination(database)
    await given_events(database, 2)
    held = await claim(store, now)
    assert await store.release(held) == {c.message_id for c in held}
    assert await attempt_rows(database) == []
    again = await claim(store, now)
    assert [(c.message_id, c.attempt) for c in again] == [(c.message_id, 1) for c in held]


async def test_a_claim_whose_lease_ran_out_is_logged_as_lost_and_goes_alone(database, store, now):
    """It is reclaimed, not claimed: from then on only the lone claim takes it, one at a time."""
    await given_destination(database)
    await given_events(database, 2)
    first = await claim(store, now)
    later = now + PAST_LEASE
    found = await store.claim([Wanted(A, 10)], later)
    assert found.claims == []
    assert [(r.message_id, r.attempt, r.parked) for r in found.reclaimed] == [
        (c.message_id, 1, False) for c in first
    ]
    log = await attempt_rows(database)
    assert [(a["number"], a["outcome"]) for a in log] == [(1, "lost"), (1, "lost")]
    assert abs(log[0]["duration_ms"] - PAST_LEASE.total_seconds() * 1000) < 5
    assert await claim(store, later) == []
    [alone] = (await store.claim_lone(later)).claims
    assert (alone.message_id, alone.attempt, alone.lone) == (first[0].message_id, 2, True)
    await store.settle([settled(alone, RetryIn(5), Failed(ErrorKind.RESET, "reset"))], later)
    assert await claim(store, later + PAST_LEASE) == [], "once a suspect, always alone"


async def test_poison_is_parked_as_crashed_after_three_losses_alone(database, store, now):
    """One loss in company, three alone; every attempt is in the log."""
    await given_destination(database)
    await given_events(database)
    await claim(store, now)
    await store.claim([Wanted(A, 1)], now := now + PAST_LEASE)
    for losses in (1, 2, 3):
        [alone] = (await store.claim_lone(now)).claims
        assert alone.attempt == losses + 1
        assert await store.set_alone(alone, alone=True)
        [reclaimed] = (await store.claim_lone(now := now + PAST_LEASE)).reclaimed
        assert reclaimed.parked == (losses == 3)
        now += timedelta(minutes=1)
    [row] = await message_rows(database)
    assert (row["status"], row["parked_reason"], row["attempts"]) == ("parked", "crashed", 4)
    assert [a["outcome"] for a in await attempt_rows(database)] == ["lost"] * 4
    assert (await store.claim_lone(now)).claims == []


async def test_due_names_each_destination_and_its_first_due_time(database, store, now):
    """One line per destination, one for the suspects."""
    for destination in (A, B):
        await given_destination(database, destination)
    assert await store.due(now) == []
    await given_events(database, 3)
    due = {d.destination: d.in_seconds for d in await store.due(now)}
    assert due.keys() == {A, B}
    assert all(-70 < seconds < -50 for seconds in due.values())
    held = await claim(store, now)
    await store.settle([settled(c, RetryIn(30), Deferred("x")) for c in held], now)
    due = {d.destination: d.in_seconds for d in await store.due(now)}
    assert abs(due[A] - 30) < 0.01
    await claim(store, now, destination=B)
    await store.claim([Wanted(B, 1)], now + PAST_LEASE)
    assert None in {d.destination for d in await store.due(now + PAST_LEASE)}


async def test_due_tells_whose_the_first_message_of_each_destination_is(database, store, now):
    """The tenant of its event; before anything was claimed."""
    for destination, tenant in ((A, "one"), (B, "two")):
        await given_destination(database, destination, tenant)
        await given_events(database, 2, tenant=tenant)
    assert {d.destination: d.tenant for d in await store.due(now)} == {A: "one", B: "two"}


async def test_a_settle_whose_answer_was_lost_is_found_in_the_log(database, store, now):
    """After a broken connection the repeated settle matches nothing, and yet nothing was lost."""
    await given_destination(database)
    await given_events(database, 2)
    done, open_one = await claim(store, now)
    await store.settle([settled(done)], now)
    assert await store.settled_before([done, open_one]) == {done.message_id}


async def test_a_log_that_has_the_number_already_stops_no_settle(database, store, now):
    """Whoever wrote that line, say from a backup: what is delivered counts as delivered."""
    await given_destination(database)
    await given_events(database, 2)
    claims = await claim(store, now)
    await store.settle([settled(claims[0], RetryIn(0), Failed(ErrorKind.RESET, "reset"))], now)
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE outbox_messages SET attempts = 0 WHERE claim_token IS NULL")
        )
    [same] = await claim(store, now + timedelta(seconds=1))
    assert (same.message_id, same.attempt) == (claims[0].message_id, 1)
    assert await store.settle([settled(same), settled(claims[1])], now) == {
        c.message_id for c in claims
    }
    assert [a["outcome"] for a in await attempt_rows(database)] == ["failed", "delivered"]


async def test_without_now_the_clock_is_the_databases(database, store):
    """The way the relay calls it."""
    await given_destination(database)
    await given_events(database)
    found = await store.claim([Wanted(A, 1)])
    assert len(found.claims) == 1
    assert await store.extend(found.claims) == {found.claims[0].message_id}
    assert len(await store.due()) == 1
    assert await store.settle([settled(found.claims[0])]) == {found.claims[0].message_id}
    assert await store.due() == []


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_floor_leaves_out_what_was_due_before(database, store, now):
    """On PostgreSQL, where an old transaction keeps dead index entries at the head; a hint."""
    await given_destination(database)
    await given_events(database, 1)
    await given_events(database, 1)
    found = await store.claim([Wanted(A, 1)], now)
    await store.release(found.claims)
    above = await store.claim([Wanted(A, 5, found.floors[A] + timedelta(microseconds=1))], now)
    assert len(above.claims) == 1


async def test_a_loss_beside_other_work_never_counts_as_a_loss_alone(database, store, now):
    """Whatever ended the relay, this message need not have been it: never parked for that."""
    await given_destination(database)
    await given_events(database)
    await claim(store, now)
    await store.claim([Wanted(A, 1)], now := now + PAST_LEASE)
    for _ in range(10):
        [suspect] = (await store.claim_lone(now)).claims
        await store.set_alone(suspect, alone=True)
        assert await store.set_alone(suspect, alone=False), "others have begun"
        [reclaimed] = (await store.claim_lone(now := now + PAST_LEASE)).reclaimed
        assert not reclaimed.parked
        now += timedelta(minutes=2)
    [row] = await message_rows(database)
    assert (row["status"], row["losses"], row["lone_losses"]) == ("pending", 11, 0)


async def test_suspects_of_a_busy_destination_wait_and_others_do_not(database, store, now):
    """By destination, and by how often they were lost."""
    for destination in (A, B):
        await given_destination(database, destination)
    await given_events(database, 1)
    await store.claim([Wanted(A, 1), Wanted(B, 1)], now)
    await store.claim([Wanted(A, 1), Wanted(B, 1)], now := now + PAST_LEASE)
    assert (await store.claim_lone(now, again=True)).claims == []
    assert (await store.claim_lone(now, busy=[A, B])).claims == []
    [first] = (await store.claim_lone(now, again=False, busy=[A])).claims
    assert (first.destination, first.losses, first.lone) == (B, 1, True)


async def test_only_the_holder_says_that_it_is_alone(database, store, now):
    """Guarded by the token like every write after a claim."""
    await given_destination(database)
    await given_events(database)
    [held] = await claim(store, now)
    assert not await store.set_alone(msgspec.structs.replace(held, token=uuid4()), alone=True)
