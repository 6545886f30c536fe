"""What holds a message back from its endpoint: limits and the circuit breaker, for all relays.

Two deliverers stand for two relays; they share nothing but the database.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import func, select, update

from app.db.dialect import db_now_plus
from app.outbox.message import Deferred, Delivered, Failed, webhook_destination
from app.outbox.tables import attempts
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from app.webhooks.breaker import LEAST_CALLS
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.endpoints import enable_endpoint, get_endpoint
from app.webhooks.pace import BURST_SECONDS
from app.webhooks.tables import endpoints
from tests.relay.conftest import eventually, running
from tests.support.receiver import Answer, Fault
from tests.webhooks.factories import CIPHER, claim_for, endpoint_at
from tests.webhooks.test_end_to_end import announce, messages_of


@pytest.fixture
async def other(database, settings) -> AsyncIterator[WebhookDeliverer]:
    """Another relay's deliverer."""
    deliverer = WebhookDeliverer(database, CIPHER, settings, fresh_seconds=0)
    yield deliverer
    await deliverer.close()


async def row(database, endpoint_id: UUID):
    async with database.read() as session:
        return (await session.execute(select(endpoints).where(endpoints.c.id == endpoint_id))).one()


async def move_breaker(database, endpoint_id: UUID, seconds: float) -> None:
    """The period ends so many seconds from now."""
    async with database.transaction() as session:
        mine = update(endpoints).where(endpoints.c.id == endpoint_id)
        await session.execute(mine.values(breaker_until=db_now_plus(seconds)))


async def opened(deliverer, made) -> None:
    """Let the endpoint fail until its breaker opens."""
    for _ in range(LEAST_CALLS):
        assert isinstance(await deliverer.deliver(claim_for(made.id)), Failed)


async def test_a_dead_endpoint_costs_at_most_one_probe_per_open_period(
    database, settings, deliverer, other, receiver
):
    """Whoever asks, and however many at once; a good probe closes the breaker for all relays."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(500)))
    await opened(deliverer, made)
    assert (await row(database, made.id)).breaker_until is not None
    for period in range(4):
        sent = len(receiver.requests)
        claims = [claim_for(made.id) for _ in range(20)]
        outcomes = await asyncio.gather(
            *(each.deliver(claim) for claim in claims for each in (deliverer, other))
        )
        assert len(receiver.requests) - sent == min(1, period), "the period is not over at first"
        assert sum(isinstance(o, Deferred) for o in outcomes) == 40 - min(1, period)
        assert all("circuit breaker" in o.reason for o in outcomes if isinstance(o, Deferred))
        await move_breaker(database, made.id, -1)
    receiver.on("/hook", Answer(200))
    assert isinstance(await other.deliver(claim_for(made.id)), Delivered)
    assert (await row(database, made.id)).breaker_until is None
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)


async def test_a_probe_that_is_refused_shows_that_the_endpoint_lives(
    database, settings, deliverer, receiver
):
    """A 4xx is about the message."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(500)))
    await opened(deliverer, made)
    await move_breaker(database, made.id, -1)
    receiver.on("/hook", Answer(404))
    for _ in range(2):
        assert isinstance(await deliverer.deliver(claim_for(made.id)), Failed)
    assert (await row(database, made.id)).breaker_until is None


async def test_a_deferral_costs_no_attempt_and_the_reason_is_visible(
    database, settings, deliverer, receiver
):
    """The attempts column is as before, the log is empty, the message says why it waits."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(500)))
    await move_breaker(database, made.id, 60)
    for _ in range(20):
        await announce(database)
    relay = Relay(database, {"webhook": deliverer}, settings, _metrics())
    for _ in range(3):
        await relay.run_once()
    await relay.close()
    messages = await messages_of(database)
    assert {m.attempts for m in messages} == {0}
    assert {m.status for m in messages} == {"pending"}
    assert all("circuit breaker" in (m.waits_for or "") for m in messages)
    assert all(m.available_at - m.created_at > timedelta(seconds=50) for m in messages[-8:])
    async with database.read() as session:
        assert (await session.execute(select(func.count()).select_from(attempts))).scalar() == 0
        assert "circuit breaker" in ((await get_endpoint(session, made.id)).waits_for or "")
    assert receiver.requests == []


async def test_an_open_breaker_costs_no_claims_and_delays_no_other(
    database, settings, deliverer, receiver
):
    """The relay claims a handful, learns of it, and leaves the rest in the database."""
    dead = await endpoint_at(database, settings, receiver.on("/dead", Answer(500)))
    await endpoint_at(database, settings, receiver.on("/well", Answer(200)))
    await move_breaker(database, dead.id, 600)
    for _ in range(100):
        await announce(database)
    relay = Relay(database, {"webhook": deliverer}, settings, _metrics())
    async with running(relay):
        await receiver.wait_for(100, path="/well", timeout=60)
        await eventually(lambda: relay.counts.delivered == 100)
        deferred = relay.counts.deferred
    assert 0 < deferred <= 2 * settings.endpoint_concurrency
    assert receiver.at("/dead") == []
    assert deliverer.room(webhook_destination(dead.id)).starts == 0


async def test_an_endpoint_with_limits_is_sent_to_by_one_relay_alone(
    database, settings, deliverer, other, receiver
):
    """So its limits hold for all of them together; the next takes over when that one ends."""
    made = await endpoint_at(database, settings, receiver.url, rate_per_second=1000.0)
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    held_back = await other.deliver(claim_for(made.id))
    assert isinstance(held_back, Deferred)
    assert "another relay" in held_back.reason
    assert other.room(webhook_destination(made.id)).starts == 0
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    await deliverer.close()
    assert (await row(database, made.id)).owner is None
    assert isinstance(await other.deliver(claim_for(made.id)), Delivered)


async def test_a_relay_that_died_owns_an_endpoint_no_longer_than_its_lease(
    database, settings, deliverer, other, receiver
):
    """Nothing is waited for that will never come."""
    made = await endpoint_at(database, settings, receiver.url, max_in_flight=1)
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    async with database.transaction() as session:
        mine = update(endpoints).where(endpoints.c.id == made.id)
        await session.execute(mine.values(owned_until=db_now_plus(-1)))
    assert isinstance(await other.deliver(claim_for(made.id)), Delivered)


async def test_the_rate_and_what_is_in_flight_are_kept(database, settings, deliverer, receiver):
    """What comes too early or is too much is deferred, with the limit's name."""
    slow = await endpoint_at(database, settings, receiver.url, rate_per_second=0.01)
    outcomes = [await deliverer.deliver(claim_for(slow.id)) for _ in range(3)]
    assert [type(o) for o in outcomes] == [Delivered, Deferred, Deferred]
    assert isinstance(outcomes[1], Deferred)
    assert 50 < outcomes[1].delay_seconds <= 100
    assert "rate_per_second" in outcomes[1].reason
    assert deliverer.room(webhook_destination(slow.id)).starts == 0

    url = receiver.on("/one", Answer(fault=Fault.SILENT))
    one = await endpoint_at(database, settings, url, max_in_flight=1, timeout_seconds=1.0)
    outcomes = await asyncio.gather(*(deliverer.deliver(claim_for(one.id)) for _ in range(4)))
    assert sorted(type(o).__name__ for o in outcomes) == ["Deferred"] * 3 + ["Failed"]
    assert len(receiver.at("/one")) == 1


@pytest.mark.parametrize("status", [429, 502, 504])
async def test_an_answer_that_asks_for_less_slows_the_endpoint_down_until_the_next_2xx(
    database, settings, deliverer, receiver, status
):
    """What comes meanwhile is deferred."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(status)))
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Failed)
    held_back = await deliverer.deliver(claim_for(made.id))
    assert isinstance(held_back, Deferred)
    assert "slowed down" in held_back.reason
    assert 0 < held_back.delay_seconds <= 10
    receiver.on("/hook", Answer(200))
    traffic = deliverer._known.traffic(webhook_destination(made.id))
    traffic.pace._tokens = 1.0  # the time has come
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    assert traffic.pace.slowed is None


async def test_an_endpoint_that_a_person_enables_starts_anew(
    database, settings, deliverer, receiver
):
    """The breaker is closed and the failures before are forgotten."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(500)))
    await opened(deliverer, made)
    async with database.transaction() as session:
        await session.execute(
            update(endpoints).values(status="disabled", version=endpoints.c.version + 1)
        )
    await deliverer.deliver(claim_for(made.id))
    async with database.transaction() as session:
        shown = await enable_endpoint(session, made.id)
    assert (shown.waits_for, shown.failing_since) == (None, None)
    for _ in range(LEAST_CALLS - 1):
        assert isinstance(await deliverer.deliver(claim_for(made.id)), Failed)
    assert (await row(database, made.id)).breaker_until is None


def _metrics() -> RelayMetrics:
    return RelayMetrics(CollectorRegistry())


async def test_two_relays_together_keep_the_limits_and_deliver_everything(
    database, settings, deliverer, other, receiver
):
    """Never two at once, never faster than allowed; nothing waits for ever, no attempt is spent."""
    url = receiver.on("/hook", Answer(200, delay_seconds=0.005))
    made = await endpoint_at(database, settings, url, max_in_flight=1, rate_per_second=50.0)
    for _ in range(20):
        await announce(database)
    started = time.monotonic()
    one, two = (Relay(database, {"webhook": d}, settings, _metrics()) for d in (deliverer, other))
    async with running(one), running(two):
        await receiver.wait_for(20, timeout=60)
        await eventually(lambda: one.counts.delivered + two.counts.delivered == 20)
    assert time.monotonic() - started >= (20 - 50 * BURST_SECONDS) / 50
    times = [request.at for request in receiver.requests]
    assert all(later - earlier >= 0.005 for earlier, later in pairwise(times)), "one at a time"
    assert {(m.status, m.attempts) for m in await messages_of(database)} == {("sent", 1)}
    assert 0 in (one.counts.delivered, two.counts.delivered), "one relay alone sent"
    assert (await row(database, made.id)).owner is not None
