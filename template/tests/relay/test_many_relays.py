"""Several relays at once on one PostgreSQL, and a server that goes away."""

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import text

from app.config import Settings
from app.db.engine import Database
from app.outbox.message import Claim, Delivered, Outcome
from app.outbox.store import Store, Wanted
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from tests.outbox.factories import (
    A,
    FakeKind,
    attempt_rows,
    given_destination,
    given_events,
    message_rows,
)
from tests.relay.conftest import MakeRelay, eventually, running


@pytest.fixture
def database_url(postgresql_url: str) -> str:
    """Only PostgreSQL has several relays."""
    return postgresql_url


class Wandering(FakeKind):
    """Takes up to some milliseconds, so that relays interleave."""

    def __init__(self, seed: int, seconds: float) -> None:
        super().__init__()
        self._random, self._seconds = Random(seed), seconds

    async def deliver(self, claim: Claim) -> Outcome:
        await asyncio.sleep(self._random.random() * self._seconds)
        self.seen.append(claim)
        return Delivered()


async def test_relays_share_the_work_and_deliver_each_message_once(
    database: Database, settings: Settings
):
    """Three relays, while events are still being published."""
    for number in range(5):
        await given_destination(database, f"test:{number}")
    kinds = [Wandering(seed, 0.005) for seed in range(3)]
    databases = [Database(settings) for _ in kinds]
    relays = [
        Relay(db, {"test": kind}, settings, RelayMetrics(CollectorRegistry()))
        for db, kind in zip(databases, kinds, strict=True)
    ]
    runs = [asyncio.create_task(relay.run()) for relay in relays]
    for _ in range(10):
        await given_events(database, 10)
    await eventually(lambda: sum(relay.counts.delivered for relay in relays) == 500)
    for relay in relays:
        relay.stop()
    await asyncio.gather(*runs)
    times = Counter(claim.message_id for kind in kinds for claim in kind.seen)
    assert len(times) == 500
    assert set(times.values()) == {1}
    assert {(r["status"], r["attempts"]) for r in await message_rows(database)} == {("sent", 1)}
    for db in databases:
        await db.dispose()


async def test_g4_leases_that_run_out_all_the_time_lose_nothing(
    database: Database, settings: Settings
):
    """Three relays that never extend a lease far too short for them: every message ends sent, each
    has exactly one delivered attempt, and no settle of a claim that was taken over wrote anything.
    Time is moved, not waited for, where a lost message would rest.
    """
    await given_destination(database)
    await given_events(database, 40)
    hasty = replace(settings, lease_seconds=0.2, request_timeout_seconds=0.05)
    seeds = range(3)

    async def relay(seed: int) -> int:
        random, db = Random(seed), Database(settings)
        db.settings = hasty
        kind, lost = Relay(db, {"test": Wandering(seed, 0.25)}, hasty, METRICS[seed]), 0
        while await _owed(db):
            lost = (await kind.run_once()).lost
            async with db.transaction() as session:
                await session.execute(text(LOST_ARE_DUE))
            await asyncio.sleep(random.random() * 0.02)
        await kind.close()
        await db.dispose()
        return lost

    lost = await asyncio.gather(*map(relay, seeds))
    log = await attempt_rows(database)
    delivered = Counter(a["message_id"] for a in log if a["outcome"] == "delivered")
    parked = [r for r in await message_rows(database) if r["status"] == "parked"]
    assert {r["parked_reason"] for r in parked} <= {"crashed"}
    assert len(delivered) + len(parked) == 40
    assert set(delivered.values()) == {1}
    assert sum(lost) > 0, "leases really ran out"


LOST_ARE_DUE = """UPDATE outbox_messages SET available_at = created_at
WHERE losses > 0 AND claim_token IS NULL AND sent_at IS NULL AND parked_at IS NULL"""
METRICS = [RelayMetrics(CollectorRegistry()) for _ in range(3)]


async def _owed(database: Database) -> bool:
    owed = "SELECT FROM outbox_messages WHERE sent_at IS NULL AND parked_at IS NULL"
    async with database.read() as session:
        return bool((await session.execute(text(f"SELECT EXISTS ({owed})"))).scalar_one())


async def test_a_relay_whose_connections_are_cut_goes_on(database: Database, make_relay: MakeRelay):
    """What a restart of the server looks like: every backend ends in the middle of the work."""
    await given_destination(database)
    kind = Wandering(1, 0.01)
    relay = make_relay(
        {"test": kind}, poll_seconds=0.1, lease_seconds=3.0, request_timeout_seconds=0.5
    )
    async with running(relay):
        for _ in range(4):
            await given_events(database, 25)
            seen = len(kind.seen)
            await eventually(lambda before=seen: len(kind.seen) > before)
            async with database.transaction() as session:
                cut = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <>
                    pg_backend_pid() AND application_name LIKE 'relay%'
                    AND datname = current_database()"""
                await session.execute(text(cut))
        await eventually(lambda: relay.counts.delivered == 100)
    assert relay.counts.lost == 0
    assert {r["status"] for r in await message_rows(database)} == {"sent"}


async def test_a_claim_whose_answer_never_came_is_reclaimed(
    database: Database, settings: Settings, make_relay: MakeRelay
):
    """The server has committed the claim, the relay knows nothing: the lease brings it back."""
    await given_destination(database)
    await given_events(database, 3)
    unheard = Store(_with(Database(settings), replace(settings, lease_seconds=0.3)))
    await unheard.claim([Wanted(A, 3)])
    await unheard.close()
    kind = FakeKind()
    async with running(make_relay({"test": kind}, poll_seconds=0.05)) as relay:
        await eventually(lambda: relay.counts.delivered == 3)
    assert relay.counts.reclaimed == 3
    assert all(claim.lone for claim in kind.seen)


def _with(database: Database, settings: Settings) -> Database:
    database.settings = settings
    return database
