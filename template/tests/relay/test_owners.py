"""Turns between owners: a tenant with a thousand slow endpoints is one of them (G8)."""

import asyncio
import time
from uuid import UUID, uuid4

from app.outbox.message import Claim, Delivered, Outcome
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy
from app.outbox.store import Claimed, Store
from app.relay import owner
from app.relay.claiming import Claiming
from app.relay.lane import Held, Plan
from app.relay.lanes import Lanes
from app.relay.leases import Leases
from app.relay.metrics import RelayMetrics
from app.relay.owner import Owners
from tests.outbox.factories import given_destination, given_events
from tests.relay.conftest import eventually, running

BUSY = [f"webhook:{number}" for number in range(1000)]
FRESH = "webhook:fresh"
MOST = 7 * 64  # of one tenant, beside 64 senders, when all its requests are slow
LATER = 100.0


def claim(destination: str, tenant: str) -> Claim:
    return Claim(
        uuid4(), uuid4(), "a.b", tenant, destination, UUID(int=1), 1, 0, 0.0, b"{}",
        None, False, 0.0,
    )  # fmt: skip


def answer(plan: Plan, tenant: str = "busy") -> Claimed:
    """What a database says where each destination has all that it is asked for."""
    found = [claim(each.destination, tenant) for each in plan.wanted for _ in range(each.slots)]
    return Claimed(found[: plan.limit], [], {})


async def take_all(lanes: Lanes) -> list[Held]:
    """Everything that may start."""
    taken = []
    while True:
        taking = asyncio.create_task(lanes.take())
        await asyncio.sleep(0)
        if not taking.done():
            taking.cancel()
            return taken
        taken.append(taking.result())


async def held_by_one_tenant(lanes: Lanes) -> list[Held]:
    """A backlog at a thousand destinations that never answer: what is out when no more starts."""
    for destination in BUSY:
        lanes.learn(destination, "busy")
    lanes.learn(FRESH, "fresh")
    lanes.wake(BUSY)
    out: list[Held] = []
    for look in range(100):
        while (plan := lanes.plan(1.0 + look)).wanted:
            lanes.add(plan, answer(plan), 1.0 + look)
        started = await take_all(lanes)
        if not started:
            return out
        out += started
        lanes.stretch(len(out), time.monotonic())  # all of them are slow by now
    raise AssertionError("it takes ever more")


async def test_g8_a_fresh_message_is_next_while_one_tenant_holds_all():
    """In the claim and at the start, before a thousand destinations that look idle."""
    lanes = Lanes(64, 8, 250)
    assert len(await held_by_one_tenant(lanes)) == MOST
    lanes.wake(BUSY)
    lanes.wake([FRESH])
    plan = lanes.plan(LATER)
    assert [each.destination for each in plan.wanted] == [FRESH]
    lanes.add(plan, Claimed([claim(FRESH, "fresh")], [], {}), LATER)
    assert [held.claim.destination for held in await take_all(lanes)] == [FRESH]


async def test_one_tenant_leaves_senders_to_others_before_its_requests_are_slow():
    """An eighth, from the first message on."""
    lanes = Lanes(64, 8, 250)
    for destination in BUSY:
        lanes.learn(destination, "busy")
    lanes.wake(BUSY)
    plan = lanes.plan(1.0)
    lanes.add(plan, answer(plan), 1.0)
    assert len(await take_all(lanes)) == 56
    lanes.wake([FRESH])
    plan = lanes.plan(1.0001)
    assert [each.destination for each in plan.wanted] == [FRESH]
    lanes.add(plan, answer(plan, "fresh"), 1.0001)
    assert len(await take_all(lanes)) == 8


async def test_a_tenant_at_its_share_is_not_asked_until_it_holds_less():
    """Nothing is claimed again and again in vain; an answer wakes the loop that claims."""
    lanes = Lanes(64, 8, 250)
    out = await held_by_one_tenant(lanes)
    assert lanes.hungry
    assert lanes.plan(LATER).wanted == []
    assert not lanes.changed.is_set()
    lanes.done(out[0])
    assert lanes.changed.is_set()
    plan = lanes.plan(LATER)
    assert plan.wanted != []
    assert plan.limit == 1, "no more than it may start"


async def test_the_answers_of_a_wave_are_not_all_replaced_at_once():
    """What is started anew is not slow yet: it counts, and leaves the others their eighth."""
    lanes = Lanes(64, 8, 250)
    out = await held_by_one_tenant(lanes)
    for held in out[:200]:
        lanes.done(held)
    while (plan := lanes.plan(LATER)).wanted:
        lanes.add(plan, answer(plan), LATER)
    assert len(await take_all(lanes)) == 56
    lanes.wake([FRESH])
    plan = lanes.plan(LATER)
    assert [each.destination for each in plan.wanted] == [FRESH]
    lanes.add(plan, answer(plan, "fresh"), LATER)
    assert len(await take_all(lanes)) == 8


async def test_a_tenant_at_its_share_starts_more_when_more_of_it_is_slow():
    """What it has in memory waits for that, and then goes without another wake-up."""
    lanes = Lanes(64, 8, 250)
    lanes.learn(BUSY[0], "busy")
    for number in range(20):
        lanes.learn(BUSY[number], "busy")
        lanes.wake([BUSY[number]])
        plan = lanes.plan(1.0)
        lanes.add(plan, Claimed([claim(BUSY[number], "busy") for _ in range(8)], [], {}), 1.0)
    first = await take_all(lanes)
    assert len(first) == 56
    waiting = asyncio.create_task(lanes.take())
    await asyncio.sleep(0)
    lanes.stretch(3, time.monotonic())
    await asyncio.sleep(0)
    assert waiting.done()
    assert len(await take_all(lanes)) == 2


async def test_a_sender_that_goes_leaves_what_it_has_freed_to_an_idle_one():
    """Whoever ends a message takes the next one, unless it is not needed any more."""
    lanes = Lanes(64, 1, 250)
    lanes.wake(["a"])
    lanes.add(lanes.plan(1.0), Claimed([claim("a", "") for _ in range(2)], [], {}), 1.0)
    first = await lanes.take()
    idle = asyncio.create_task(lanes.take())
    await asyncio.sleep(0)
    lanes.done(first)
    lanes.pass_on()
    await asyncio.sleep(0)
    assert idle.done()


async def test_owners_take_turns_however_many_destinations_they_have():
    """Both have a backlog: every second one that is asked, and that starts, is the other's."""
    lanes = Lanes(64, 8, 250)
    for destination in [*BUSY[:20], FRESH]:
        lanes.learn(destination, "fresh" if destination == FRESH else "busy")
    lanes.wake([*BUSY[:20], FRESH])
    plan = lanes.plan(1.0)
    assert FRESH in [each.destination for each in plan.wanted[:2]]
    found = [claim(name, "busy") for name in BUSY[:5] for _ in range(8)]
    found += [claim(FRESH, "fresh") for _ in range(8)]
    lanes.add(plan, Claimed(found, [], {}), 1.0)
    started = [held.claim.tenant for held in await take_all(lanes)]
    assert started[:16].count("fresh") == 8


async def test_a_claim_tells_the_owner_and_the_turns_to_come_are_its():
    """A destination nobody knew: its next turn is its tenant's, which has its share."""
    lanes = Lanes(64, 8, 250)
    await held_by_one_tenant(lanes)
    new = "webhook:new"
    lanes.wake([new])
    plan = lanes.plan(LATER)
    assert [each.destination for each in plan.wanted] == [new]
    lanes.wake([new])
    lanes.add(plan, Claimed([claim(new, "busy")], [], {}), LATER)
    assert lanes.hungry
    assert lanes.plan(LATER).wanted == []


async def test_what_the_scan_tells_moves_a_turn_to_its_owner():
    """It had been woken before anybody knew whose it is."""
    lanes = Lanes(64, 8, 250)
    await held_by_one_tenant(lanes)
    lanes.wake(["webhook:new"])
    lanes.learn("webhook:new", "busy")
    assert lanes.plan(LATER).wanted == []


async def test_owners_are_remembered_when_their_destinations_are_idle():
    """The next wake-up of a tenant's destination is not a stranger's."""
    lanes = Lanes(64, 8, 250)
    await held_by_one_tenant(lanes)
    lanes.learn("webhook:idle", "busy")
    for _ in range(3):
        lanes.tidy()
    lanes.wake(["webhook:idle"])
    assert lanes.plan(LATER).wanted == []


async def test_handlers_stand_for_themselves():
    """A handler serves all tenants: its messages have no owner but it."""
    owners = Owners()
    assert not owners.learn("handler:a", "busy")
    assert owners.of("handler:a") is owners.of("handler:a")
    assert owners.of("handler:a") is not owners.of("handler:b")
    assert owners.of("handler:a").fresh


async def test_what_is_known_of_owners_is_bounded(monkeypatch):
    """The one that was learned first is forgotten; owners out of use are."""
    monkeypatch.setattr(owner, "MOST_KNOWN", 3)
    owners = Owners()
    for name in "abcd":
        assert owners.learn(f"webhook:{name}", "busy")
    assert not owners.learn("webhook:b", "busy")
    assert owners.of("webhook:b") is owners.of("webhook:d")
    assert owners.of("webhook:a") is not owners.of("webhook:d")
    owners.tidy([])
    assert owners.of("webhook:d").fresh


async def test_one_scan_teaches_all_owners(database, settings, registry):
    """A relay that has just started: what a hundred destinations may have is one tenant's share."""
    for _ in range(100):
        await given_destination(database, f"webhook:{uuid4()}", "busy")
    await given_events(database, 1, tenant="busy")
    store, lanes = Store(database), Lanes(64, 8, 250)
    leases = Leases(store, settings, lanes.changed.set)
    metrics = RelayMetrics(registry)
    await Claiming(store, lanes, leases, metrics, settings, lambda: None).scan()
    await store.close()
    assert lanes.plan(1.0).limit == 56


class Endpoints:
    """Those of one tenant answer when they are let go, all others at once."""

    def __init__(self) -> None:
        self.answering = asyncio.Event()
        self.out, self.quick = 0, 0

    async def deliver(self, claim: Claim) -> Outcome:
        if claim.tenant == "busy":
            self.out += 1
            await self.answering.wait()
        else:
            self.quick += 1
        return Delivered()

    def policy(self, _destination: str) -> RetryPolicy:
        return DEFAULT_POLICY

    async def close(self) -> None:
        pass


async def test_g8_a_tenant_with_a_hundred_slow_endpoints_delays_no_other(database, make_relay):
    """It has more due than the relay ever sends at once, and holds all it may: 7 times 8."""
    for _ in range(100):
        await given_destination(database, f"webhook:{uuid4()}", "busy", ["slow.*"])
    await given_destination(database, f"webhook:{uuid4()}", "other", ["quick.*"])
    await given_events(database, 3, "slow.one", "busy")
    endpoints = Endpoints()
    relay = make_relay({"webhook": endpoints}, relay_concurrency=8, endpoint_concurrency=2)
    async with running(relay):
        await eventually(lambda: endpoints.out == 56)
        for number in range(1, 21):
            await given_events(database, 1, "quick.one", "other")
            await eventually(lambda n=number: endpoints.quick == n)
            assert endpoints.out == 56
        endpoints.answering.set()
        await eventually(lambda: relay.counts.delivered == 320)
