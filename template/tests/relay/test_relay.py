"""The relay over real databases: what it delivers, when, and what it survives."""

import asyncio
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import make_url, text

from app.config import Settings
from app.db.engine import Database
from app.outbox.message import (
    Claim,
    Deferred,
    Delivered,
    ErrorKind,
    Failed,
    Outcome,
    Response,
)
from app.outbox.messages import retry
from app.outbox.store import Store, Wanted
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from tests.conftest import settings_for
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
from tests.support.proxy import Proxy

WAITS = [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800]


def failing(claim: Claim) -> Outcome:
    return Failed(ErrorKind.STATUS, "answered 500")


async def test_one_round_delivers_what_is_due(database: Database, make_relay: MakeRelay):
    """Each message once; each settled with its attempt."""
    await given_destination(database, A)
    await given_destination(database, B)
    await given_events(database, 3)
    kind = FakeKind()
    counts = await make_relay({"test": kind}).run_once()
    assert (counts.claimed, counts.delivered, counts.lost) == (6, 6, 0)
    rows = await message_rows(database)
    assert sorted(kind.ids) == [row["id"] for row in rows]
    assert {row["status"] for row in rows} == {"sent"}
    assert len(await attempt_rows(database)) == 6


async def test_g7_the_schedule_is_in_the_row_and_ends_parked(
    database: Database, make_relay: MakeRelay
):
    """Twelve attempts at the waits of the policy, each by a relay that has just started; parked
    `exhausted`, in the view; a person's retry starts the ladder anew and numbering goes on.
    """
    await given_destination(database)
    await given_events(database)
    now = await database_clock(database) + timedelta(seconds=1)
    kind = FakeKind(failing)
    for number, wait in enumerate([*WAITS, None], start=1):
        counts = await make_relay({"test": kind}).run_once(now)
        assert counts.failed == 1
        [row] = await message_rows(database)
        assert row["attempts"] == number
        if wait is not None:
            planned = (row["available_at"] - now).total_seconds()
            assert wait * 0.8 - 0.01 <= planned <= min(wait * 1.2, 1800) + 0.01
            just_before = row["available_at"] - timedelta(milliseconds=5)
            assert (await make_relay({"test": kind}).run_once(just_before)).claimed == 0
            now = row["available_at"]
    assert (row["status"], row["parked_reason"]) == ("parked", "exhausted")
    assert [claim.attempt for claim in kind.seen] == list(range(1, 13))
    assert (await make_relay({"test": kind}).run_once(now + timedelta(days=30))).claimed == 0
    async with database.read() as session:
        [parked] = (await session.execute(text("SELECT * FROM parked_messages"))).mappings()
    assert (parked["attempts"], parked["parked_reason"]) == (12, "exhausted")
    async with database.transaction() as session:
        await retry(session, row["id"])
    again = FakeKind()
    assert (await make_relay({"test": again}).run_once()).delivered == 1
    assert [(c.message_id, c.attempt, c.rung) for c in again.seen] == [(row["id"], 13, 1)]


async def test_g4_a_message_of_a_dead_relay_is_delivered_by_another(
    database: Database, make_relay: MakeRelay
):
    """The first relay never comes back; after its lease another delivers, alone, numbered on."""
    await given_destination(database)
    await given_events(database, 5)
    dead = Store(database)
    assert len((await dead.claim([Wanted(A, 5)])).claims) == 5
    await dead.close()
    later = await database_clock(database) + timedelta(seconds=61)
    kind = FakeKind()
    counts = await make_relay({"test": kind}).run_once(later)
    assert (counts.reclaimed, counts.delivered) == (5, 5)
    assert {(claim.attempt, claim.lone) for claim in kind.seen} == {(2, True)}
    assert {row["status"] for row in await message_rows(database)} == {"sent"}
    outcomes = [attempt["outcome"] for attempt in await attempt_rows(database)]
    assert sorted(outcomes) == ["delivered"] * 5 + ["lost"] * 5


async def test_g3_an_outcome_that_comes_after_a_takeover_is_lost_and_counted(
    database: Database, make_relay: MakeRelay, registry
):
    """Another relay has the message by then: nothing is written, and the loss is counted."""
    await given_destination(database)
    await given_events(database)
    other = Store(database)

    class Slow(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            later = await database_clock(database) + timedelta(seconds=61)
            await other.claim([Wanted(A, 1)], later)
            assert len((await other.claim_lone(later)).claims) == 1
            return await super().deliver(claim)

    counts = await make_relay({"test": Slow()}).run_once()
    assert (counts.lost, counts.delivered) == (1, 0)
    [row] = await message_rows(database)
    assert (row["status"], row["attempts"]) == ("claimed", 2)
    assert [a["outcome"] for a in await attempt_rows(database)] == ["lost"]
    assert registry.get_sample_value("relay_settle_lost_total") == 1
    await other.close()


async def test_g9_no_transaction_is_open_while_a_deliverer_works(
    database: Database, make_relay: MakeRelay
):
    """Each delivery asks the database itself, or takes the only writer and gives it back."""
    await given_destination(database)
    await given_events(database, 3)
    open_ones: list[int] = []

    class Watching(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            async with asyncio.timeout(5), database.transaction() as session:
                if not database.is_sqlite:
                    query = """SELECT count(*) FROM pg_stat_activity WHERE state LIKE
                        'idle in transaction%' AND datname = current_database()"""
                    open_ones.append((await session.execute(text(query))).scalar_one())
            return await super().deliver(claim)

    relay = make_relay({"test": Watching()}, endpoint_concurrency=1)
    for _ in range(3):
        counts = await relay.run_once()
    assert counts.delivered == 3
    assert open_ones == ([] if database.is_sqlite else [0, 0, 0])


async def test_a_running_relay_delivers_at_once_what_is_committed(
    database: Database, make_relay: MakeRelay
):
    """Woken by the commit: long before its poll."""
    await given_destination(database)
    kind = FakeKind()
    async with running(make_relay({"test": kind}, poll_seconds=600.0)):
        for number in range(1, 4):
            await given_events(database)
            await eventually(lambda n=number: len(kind.seen) == n)
    assert {row["status"] for row in await message_rows(database)} == {"sent"}


async def test_a_message_that_nobody_announced_is_found_by_the_poll(
    database: Database, settings: Settings, make_relay: MakeRelay
):
    """The backstop: a wake-up may be lost, a message not. Here another process publishes."""
    await given_destination(database)
    kind = FakeKind()
    other = Database(settings)
    async with running(make_relay({"test": kind}, poll_seconds=0.05)):
        for number in range(1, 4):
            await given_events(other)
            await eventually(lambda n=number: len(kind.seen) == n)
    await other.dispose()


async def test_a_message_for_later_goes_out_when_it_is_due(
    database: Database, make_relay: MakeRelay
):
    """Not by the poll's rhythm: the next due time decides the sleep."""
    await given_destination(database)
    answers = iter([Deferred("busy", 0.2), Delivered()])
    kind = FakeKind(lambda claim: next(answers))
    loop = asyncio.get_running_loop()
    async with running(make_relay({"test": kind}, poll_seconds=30.0)):
        await given_events(database)
        await eventually(lambda: len(kind.seen) == 1)
        first = loop.time()
        await eventually(lambda: len(kind.seen) == 2)
        assert 0.15 < loop.time() - first < 2.0
    assert [claim.attempt for claim in kind.seen] == [1, 1], "a deferral spends no attempt"
    assert [a["number"] for a in await attempt_rows(database)] == [1]


async def test_g8_a_blocked_destination_delays_no_other(database: Database, make_relay: MakeRelay):
    """One destination takes for ever and has a thousand messages; another's go through at once."""
    await given_destination(database, A, tenant="slow")
    await given_destination(database, B, tenant="fast")
    never = asyncio.Event()

    class Kind(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            self.seen.append(claim)
            if claim.destination == A:
                await never.wait()
            return Delivered()

    kind = Kind()
    await given_events(database, 1000, tenant="slow")
    relay = make_relay({"test": kind}, relay_concurrency=16, shutdown_seconds=0.1)
    async with running(relay):
        await eventually(lambda: len(kind.seen) == 8)
        for number in range(1, 21):
            await given_events(database, tenant="fast")
            await eventually(lambda n=number: len(kind.seen) == 8 + n, seconds=5)
    slow = [row for row in await message_rows(database) if row["destination"] == A]
    assert sum(row["attempts"] for row in slow) == 8, "no more than its slots were ever claimed"


async def test_drain_ends_when_nothing_is_due(database: Database, make_relay: MakeRelay):
    """Every message of many destinations, in as many rounds as it takes, each once."""
    for number in range(20):
        await given_destination(database, f"test:{number}")
    await given_events(database, 60)
    kind = FakeKind()
    counts = await make_relay({"test": kind}).drain()
    assert (counts.claimed, counts.delivered) == (1200, 1200)
    assert len(set(kind.ids)) == 1200
    assert {row["status"] for row in await message_rows(database)} == {"sent"}


async def test_drain_of_an_empty_outbox_ends_at_once(database: Database, make_relay: MakeRelay):
    """Nothing to do is no reason to wait."""
    async with asyncio.timeout(10):
        counts = await make_relay({"test": FakeKind()}, poll_seconds=60.0).drain()
    assert counts.claimed == 0


async def test_a_deliverer_that_raises_has_failed_its_attempt(
    database: Database, make_relay: MakeRelay
):
    """The relay goes on; the message is retried like after any other failure."""
    await given_destination(database)
    await given_events(database, 2)

    def answer(claim: Claim) -> Outcome:
        raise ZeroDivisionError("secret detail")

    counts = await make_relay({"test": FakeKind(answer)}).run_once()
    assert counts.failed == 2
    for row in await message_rows(database):
        assert (row["status"], row["attempts"]) == ("pending", 1)
        assert row["last_error"] == "ZeroDivisionError in the deliverer"
    assert {a["error_kind"] for a in await attempt_rows(database)} == {"internal"}


async def test_a_deliverer_whose_inner_task_is_cancelled_has_failed_its_attempt(
    database: Database, make_relay: MakeRelay
):
    """Nobody cancelled the sender: it goes on, and the relay with it."""
    await given_destination(database)

    class Torn(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            self.seen.append(claim)
            inner = asyncio.create_task(asyncio.sleep(60))
            inner.cancel()
            await inner
            return Delivered()

    kind = Torn()
    async with running(make_relay({"test": kind})):
        for number in range(1, 4):
            await given_events(database)
            await eventually(lambda n=number: len(kind.seen) == n)
        await eventually(lambda: _attempts_logged(database, 3))
    assert {row["error_kind"] for row in await attempt_rows(database)} == {"internal"}


async def _attempts_logged(database: Database, count: int) -> bool:
    return len(await attempt_rows(database)) == count


async def test_an_unknown_kind_is_left_waiting_and_reported(
    database: Database, make_relay: MakeRelay, registry
):
    """Another relay or the next version may know it: not parked, no attempt spent, and counted."""
    await given_destination(database, "pigeon:1")
    await given_events(database)
    counts = await make_relay({"test": FakeKind()}).run_once()
    assert (counts.deferred, counts.parked) == (1, 0)
    [row] = await message_rows(database)
    assert (row["status"], row["attempts"]) == ("pending", 0)
    assert "pigeon" in row["last_error"]
    assert registry.get_sample_value("relay_errors_total", {"where": "unknown_kind"}) == 1


async def test_a_stopped_relay_settles_what_is_in_flight_and_releases_the_rest(
    database: Database, make_relay: MakeRelay
):
    """The one in flight ends and counts; what was claimed and not started is as if untouched."""
    await given_destination(database)
    await given_events(database, 30)
    go = asyncio.Event()

    class Waiting(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            self.seen.append(claim)
            await go.wait()
            return Delivered()

    kind = Waiting()
    relay = make_relay({"test": kind}, endpoint_concurrency=4)
    run = asyncio.create_task(relay.run())
    await eventually(lambda: len(kind.seen) == 4)
    relay.stop()
    await asyncio.sleep(0)
    go.set()
    counts = await run
    assert counts.delivered == len(kind.seen) == 4
    states = [(row["status"], row["attempts"]) for row in await message_rows(database)]
    assert sorted(states) == [("pending", 0)] * 26 + [("sent", 1)] * 4


async def test_what_waits_at_a_closed_door_when_the_relay_stops_is_released(
    database: Database, make_relay: MakeRelay
):
    """A suspect is alone and the time to stop is over: what never started spends no attempt."""
    await given_destination(database)
    kind = FakeKind()
    relay = make_relay({"test": kind}, shutdown_seconds=0.2)
    await relay._sending._gate.close(0.1)
    async with running(relay):
        await given_events(database, 3)
        await eventually(lambda: relay._lanes.held == 3)
    assert kind.seen == []
    states = [(row["status"], row["attempts"]) for row in await message_rows(database)]
    assert states == [("pending", 0)] * 3


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_stop_is_bounded_when_the_database_is_silent(
    database: Database, settings: Settings
):
    """What can't be given back is left to its lease; a stop that takes longer ends in SIGKILL."""
    await given_destination(database)
    await given_events(database, 2000)
    url = make_url(settings.database_url)
    hang = asyncio.Event()

    class Hanging(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            self.seen.append(claim)
            if len(self.seen) > 300:
                hang.set()
                await asyncio.Event().wait()
            return Delivered()

    async with Proxy(url.port or 5432) as proxy:
        proxied = url.set(port=proxy.port).render_as_string(hide_password=False)
        changed = settings_for(proxied, APP_SHUTDOWN_SECONDS="1", APP_LEASE_SECONDS="120")
        behind = Database(changed)
        relay = Relay(behind, {"test": Hanging()}, changed, RelayMetrics(CollectorRegistry()))
        run = asyncio.create_task(relay.run())
        await hang.wait()
        await eventually(lambda: relay._lanes.held > 64)  # more than can be in flight
        proxy.silence()
        relay.stop()
        async with asyncio.timeout(30):  # 1 + 5 to settle; a release alone may take 60
            await run
        proxy.speak()
        await behind.dispose()


async def test_what_does_not_end_in_time_is_an_attempt_without_an_answer(
    database: Database, make_relay: MakeRelay
):
    """After the budget the relay ends all the same, and says so in the log of the message."""
    await given_destination(database)
    await given_events(database)

    class Endless(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            self.seen.append(claim)
            await asyncio.Event().wait()
            return Delivered()

    kind = Endless()
    relay = make_relay({"test": kind}, shutdown_seconds=0.1)
    async with running(relay):
        await eventually(lambda: kind.seen)
    [row] = await message_rows(database)
    assert (row["status"], row["attempts"]) == ("pending", 1)
    [attempt] = await attempt_rows(database)
    assert (attempt["outcome"], attempt["error_kind"]) == ("failed", "timeout")


async def test_g2_a_lease_is_extended_as_long_as_the_message_is_held(
    database: Database, make_relay: MakeRelay, monkeypatch
):
    """A request longer than the lease, and extensions that fail twice: nobody else gets it."""
    monkeypatch.setattr("app.relay.upkeep.PAUSE_SECONDS", 0.02)
    await given_destination(database)
    await given_events(database)
    go = asyncio.Event()

    class Long(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            self.seen.append(claim)
            await go.wait()
            return Delivered()

    kind = Long()
    relay = make_relay(
        {"test": kind}, lease_seconds=0.9, request_timeout_seconds=0.1, poll_seconds=0.05
    )
    fail_twice(relay, "extend", monkeypatch)
    async with running(relay):
        await eventually(lambda: kind.seen)
        [first] = await message_rows(database)
        end = first["lease_until"] + timedelta(seconds=1)

        async def lease_over() -> bool:
            return await database_clock(database) > end

        await eventually(lease_over)
        go.set()
    [row] = await message_rows(database)
    assert (row["status"], row["attempts"], row["losses"]) == ("sent", 1, 0)
    assert len(kind.seen) == 1


def fail_twice(relay: Relay, method: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A statement that fails twice before it reaches the database; the list of failures."""
    real, failures = getattr(relay._store._backend, method), []

    async def failing_twice(*arguments: object) -> object:
        if len(failures) < 2:
            failures.append(1)
            raise OSError("connection reset")
        return await real(*arguments)

    monkeypatch.setattr(relay._store._backend, method, failing_twice)
    return failures


@pytest.mark.parametrize("broken", ["claim", "settle", "due"])
async def test_a_database_error_is_survived(
    database: Database, make_relay: MakeRelay, registry, monkeypatch, broken: str
):
    """Each statement fails twice; afterwards everything is delivered and settled, once."""
    await given_destination(database)
    kind = FakeKind()
    relay = make_relay(
        {"test": kind}, lease_seconds=3.0, request_timeout_seconds=0.5, poll_seconds=0.05
    )
    failures = fail_twice(relay, broken, monkeypatch)
    monkeypatch.setattr("app.relay.claiming.PAUSE_SECONDS", 0.01)
    async with running(relay):
        await given_events(database, 10)
        await eventually(lambda: len(failures) == 2 and relay.counts.delivered == 10)
    assert len(kind.seen) == 10
    assert relay.counts.lost == 0


async def test_what_was_delivered_stays_delivered_when_the_policy_is_broken(
    database: Database, make_relay: MakeRelay
):
    """Recording never turns a success into another attempt."""
    await given_destination(database)
    await given_events(database)

    class NoPolicy(FakeKind):
        def policy(self, destination: str):
            raise KeyError(destination)

    assert (await make_relay({"test": NoPolicy()}).run_once()).delivered == 1


async def test_an_answer_that_is_no_outcome_fails_its_attempt(
    database: Database, make_relay: MakeRelay
):
    """A fault of the deliverer, not of the relay."""
    await given_destination(database)
    await given_events(database)
    assert (await make_relay({"test": FakeKind(lambda claim: None)}).run_once()).failed == 1


async def test_an_outcome_that_no_database_can_hold_holds_back_no_other(
    database: Database, make_relay: MakeRelay, monkeypatch
):
    """It is stored without what the deliverer said; the others of its batch are as they were."""
    monkeypatch.setattr("app.relay.settler.FIRST_PAUSE_SECONDS", 0.001)
    await given_destination(database)
    await given_events(database, 6)
    bad = (await message_rows(database))[2]["id"]

    def answer(claim: Claim) -> Outcome:
        body = "no bytes" if claim.message_id == bad else b"bytes"
        if database.is_sqlite and claim.message_id == bad:
            body = object()
        return Failed(ErrorKind.STATUS, "answered 500", Response(500, b"", body))

    async with asyncio.timeout(20):
        counts = await make_relay({"test": FakeKind(answer)}).run_once()
    assert (counts.failed, counts.lost) == (6, 0)
    for attempt in await attempt_rows(database):
        expected = None if attempt["message_id"] == bad else b"bytes"
        assert attempt["response_body"] == expected


async def test_a_relay_with_a_broken_loop_ends_and_says_why(
    database: Database, make_relay: MakeRelay, monkeypatch
):
    """Better no relay than half of one: whoever runs it sees the fault and starts a new one."""
    relay = make_relay({"test": FakeKind()})

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(relay._lanes, "plan", broken)
    async with asyncio.timeout(10):
        with pytest.raises(ZeroDivisionError):
            await relay.run()


async def test_poison_ends_parked_as_crashed_and_its_neighbours_are_delivered(
    database: Database, make_relay: MakeRelay
):
    """A message that kills every relay that touches it; the innocent ones of its batch are lost
    once with it, and then each is delivered alone.
    """
    await given_destination(database)
    await given_events(database, 5)
    poison = (await message_rows(database))[3]["id"]
    now = await database_clock(database) + timedelta(seconds=1)

    class Dies(BaseException):
        """What the end of a process looks like from inside."""

    class Deadly(FakeKind):
        async def deliver(self, claim: Claim) -> Outcome:
            if claim.message_id == poison:
                raise Dies
            return await super().deliver(claim)

    kind, deaths = Deadly(), 0
    for _ in range(10):
        try:
            await make_relay({"test": kind}).run_once(now)
        except Dies:
            deaths += 1
        now += timedelta(seconds=90)
    rows = {row["id"]: row for row in await message_rows(database)}
    assert (rows[poison]["status"], rows[poison]["parked_reason"]) == ("parked", "crashed")
    assert deaths == 4, "once in company, three times alone"
    assert {row["status"] for i, row in rows.items() if i != poison} == {"sent"}
