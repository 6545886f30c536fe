"""Messages that a relay has lost: delivered soon, blamed only on evidence (design of `crashed`)."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.config import Settings
from app.db.engine import Database
from app.outbox.message import Claim, Delivered, Outcome
from app.outbox.store import Store, Wanted
from app.relay.gate import Gate
from tests.outbox.factories import (
    A,
    B,
    FakeKind,
    attempt_rows,
    database_clock,
    given_destination,
    given_events,
    message_rows,
)
from tests.relay.conftest import MakeRelay, eventually, running


@pytest.fixture(autouse=True)
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.relay.suspects.WARM_UP_SECONDS", 0.1)


async def lost(database: Database, destination: str, count: int, times: int = 1) -> None:
    """Messages that dead relays had claimed so many times, due now."""
    await given_destination(database, destination, tenant=destination)
    await given_events(database, count, tenant=destination)
    await mark_lost(database, destination, times)


async def mark_lost(database: Database, destination: str, times: int) -> None:
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE outbox_messages SET losses = :times WHERE destination = :destination"),
            {"times": times, "destination": destination},
        )


async def test_many_lost_messages_are_delivered_side_by_side(
    database: Database, make_relay: MakeRelay
):
    """Sixty that a dead relay had claimed, of ten destinations, 0.1 s each: not one by one, yet
    never more than two of a destination at once.
    """
    for number in range(10):
        await lost(database, f"test:{number}", 6)
    at_once: dict[str, int] = {}
    most = {"all": 0, "each": 0}

    class Slow(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            at_once[claim.destination] = at_once.get(claim.destination, 0) + 1
            most["all"] = max(most["all"], sum(at_once.values()))
            most["each"] = max(most["each"], *at_once.values())
            await asyncio.sleep(0.1)
            at_once[claim.destination] -= 1
            return await super().deliver(claim)

    kind = Slow()
    async with running(make_relay({"test": kind}, poll_seconds=0.1)) as relay:
        await eventually(lambda: relay.counts.delivered == 60)
    assert 4 <= most["all"] <= 8
    assert most["each"] <= 2
    assert len(set(kind.ids)) == 60


async def test_a_twice_lost_message_goes_alone(database: Database, make_relay: MakeRelay):
    """Nothing else is in flight beside it, the row says so meanwhile, and others go on after."""
    await lost(database, A, 3, times=2)
    await given_destination(database, B, tenant="other")
    await given_events(database, 200, tenant="other")  # busy for most of a second
    flying: list[str] = []
    beside: list[list[str]] = []
    marked: list[bool] = []

    class Watching(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            flying.append(claim.destination)
            if claim.destination == A:
                marked.append(await alone(database, claim))
            await asyncio.sleep(0.03)
            if claim.destination == A:
                beside.append([name for name in flying if name != A])
            flying.remove(claim.destination)
            return await super().deliver(claim)

    async with running(make_relay({"test": Watching()}, poll_seconds=0.05)) as relay:
        await eventually(lambda: relay.counts.delivered == 203)
    assert beside == [[]] * 3
    assert marked == [True] * 3


async def alone(database: Database, claim: Claim) -> bool:
    """What the row says of its claim."""
    rows = {row["id"]: row for row in await message_rows(database)}
    return bool(rows[claim.message_id]["alone"])


async def test_g8_a_slow_suspect_holds_the_others_up_for_a_moment_only(
    database: Database, make_relay: MakeRelay
):
    """Its patience over, the door opens, and the row says that it is no longer alone."""
    await lost(database, A, 1, times=2)
    await given_destination(database, B, tenant="other")
    go = asyncio.Event()

    class Slow(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            self.seen.append(claim)
            if claim.destination == A:
                await go.wait()
            return Delivered()

    kind = Slow()
    async with running(make_relay({"test": kind}, poll_seconds=0.05)) as relay:
        await eventually(lambda: kind.seen)
        await given_events(database, 5, tenant="other")
        await eventually(lambda: relay.counts.delivered == 5, seconds=5)
        assert not await alone(database, kind.seen[0])
        go.set()
        await eventually(lambda: relay.counts.delivered == 6)


async def test_a_relay_that_has_just_started_blames_nobody(
    database: Database, make_relay: MakeRelay, monkeypatch: pytest.MonkeyPatch
):
    """One that dies at every start must not find the same message alone each time."""
    monkeypatch.setattr("app.relay.suspects.WARM_UP_SECONDS", 60.0)
    await lost(database, A, 1, times=2)
    await lost(database, B, 1, times=1)
    kind = FakeKind()
    async with running(make_relay({"test": kind}, poll_seconds=0.05)) as relay:
        await eventually(lambda: relay.counts.delivered == 1)
    assert [claim.destination for claim in kind.seen] == [B]


async def test_whoever_enters_waits_while_the_door_is_closed():
    """And a door that nobody leaves in time is opened again by whoever closed it."""
    gate = Gate()
    await gate.enter()
    assert not await gate.close(0.01)
    gate.leave()
    assert await gate.close(0.01)
    entering = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert gate.in_flight == 0
    gate.open()
    await entering
    assert gate.in_flight == 1


async def test_a_claim_taken_over_before_it_goes_alone_is_not_started(
    database: Database, make_relay: MakeRelay, settings: Settings
):
    """The mark is guarded by the token; without it nothing goes out."""
    await given_destination(database)
    await given_events(database)
    now = await database_clock(database) + timedelta(seconds=1)
    first, other = Store(database), Store(database)
    await first.claim([Wanted(A, 1)], now)
    await first.claim([Wanted(A, 1)], now := now + timedelta(seconds=61))
    kind = FakeKind()
    relay = make_relay({"test": kind})
    real = relay._store.claim_lone

    async def overtaken(*arguments: object) -> object:
        found = await real(*arguments)
        later = now + timedelta(seconds=61)
        await other.claim_lone(later)
        return found

    relay._store.claim_lone = overtaken  # type: ignore[method-assign]
    await relay._suspects.round(now)
    assert kind.seen == []
    assert [a["outcome"] for a in await attempt_rows(database)] == ["lost", "lost"]
    await first.close()
    await other.close()
