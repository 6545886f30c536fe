"""From publish to a verified webhook, parked, retried: relay, deliverer and receiver together."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import select, update

from app.cipher import Cipher
from app.db.dialect import db_now_plus
from app.db.engine import Database
from app.ids import uuid7
from app.outbox.event import Event
from app.outbox.message import ParkedReason, Status
from app.outbox.messages import MessageFilter, get_message, list_messages, retry
from app.outbox.publish import publish
from app.outbox.tables import outbox_messages
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.endpoint import EndpointCreate
from app.webhooks.endpoints import create_endpoint, delete_endpoint, disable_endpoint
from app.webhooks.tables import endpoints
from tests.conftest import SECRET
from tests.support.receiver import Answer

CIPHER = Cipher(SECRET)


@pytest.fixture
async def relay(database, settings) -> AsyncIterator[Relay]:
    deliverer = WebhookDeliverer(database, CIPHER, settings, fresh_seconds=0)
    metrics = RelayMetrics(CollectorRegistry())
    relay = Relay(database, {"webhook": deliverer}, settings, metrics)
    yield relay
    await relay.close()
    await deliverer.close()


async def endpoint_at(database, settings, url: str, types: list[str], tenant: str = ""):
    wanted = EndpointCreate(url=url, types=types)
    async with database.transaction() as session:
        return await create_endpoint(session, CIPHER, settings, wanted, tenant)


async def announce(database, **fields):
    async with database.transaction() as session:
        return await publish(session, Event(**{"type": "order.paid", "data": {"id": 1}} | fields))


async def messages_of(database):
    async with database.read() as session:
        page = await list_messages(session, MessageFilter())
        return [await get_message(session, message.id) for message in page.items]


async def test_an_event_reaches_every_subscriber_signed_with_its_own_secret(
    database, settings, relay, receiver
):
    """One message for each matching endpoint of the tenant, none for the others."""
    paid = await endpoint_at(database, settings, receiver.url_for("/paid"), ["order.paid"])
    every = await endpoint_at(database, settings, receiver.url_for("/every"), ["*"])
    await endpoint_at(database, settings, receiver.url_for("/other"), ["user.*"])
    await endpoint_at(database, settings, receiver.url_for("/foreign"), ["*"], tenant="acme")
    published = await announce(database)
    assert published.messages == 2
    await relay.run_once()
    assert sorted(r.path for r in receiver.requests) == ["/every", "/paid"]
    for path, endpoint in (("/paid", paid), ("/every", every)):
        (got,) = receiver.at(path)
        assert got.verify(endpoint.secret)["data"] == {"id": 1}
        assert got.headers["webhook-event-id"] == str(published.event_id)
    assert len({r.webhook_id for r in receiver.requests}) == 2
    assert {m.status for m in await messages_of(database)} == {Status.SENT}


async def test_a_rejected_message_is_parked_and_a_retry_delivers_it_under_the_same_id(
    database, settings, relay, receiver
):
    """The path of the demo: 404, parked, mended, retried, delivered."""
    url = receiver.on("/hook", Answer(404, body=b"no such page"), Answer(200))
    await endpoint_at(database, settings, url, ["*"])
    await announce(database)
    await relay.run_once()
    (parked,) = await messages_of(database)
    assert (parked.status, parked.parked_reason) == (Status.PARKED, ParkedReason.REJECTED)
    assert parked.last_error == "answered 404 Not Found"
    (attempt,) = parked.attempt_log
    assert (attempt.status_code, attempt.response_body) == (404, "no such page")
    async with database.transaction() as session:
        await retry(session, parked.id)
    await relay.run_once()
    (sent,) = await messages_of(database)
    assert (sent.status, sent.attempts) == (Status.SENT, 2)
    assert {r.webhook_id for r in receiver.requests} == {str(parked.id)}


@pytest.mark.parametrize("end", ["disabled", "deleted"])
async def test_what_is_pending_when_an_endpoint_ends_is_parked_and_no_attempt_is_spent(
    database, settings, relay, receiver, end
):
    """Nothing vanishes: the message is there, with the reason, to be dismissed or retried."""
    made = await endpoint_at(database, settings, receiver.url, ["*"])
    await announce(database)
    async with database.transaction() as session:
        if end == "disabled":
            await disable_endpoint(session, made.id, "maintenance")
        else:
            await delete_endpoint(session, made.id)
    await relay.run_once()
    (message,) = await messages_of(database)
    assert (message.status, message.parked_reason) == (Status.PARKED, f"endpoint_{end}")
    assert (message.attempts, message.attempt_log) == (0, [])
    assert receiver.requests == []


async def test_a_disabled_endpoint_still_gets_its_messages_and_a_deleted_one_does_not(
    database, settings, receiver
):
    """Disabled: stored, to be retried later. Deleted: no longer subscribed."""
    off = await endpoint_at(database, settings, receiver.url, ["*"])
    gone = await endpoint_at(database, settings, receiver.url, ["*"])
    async with database.transaction() as session:
        await disable_endpoint(session, off.id, "maintenance")
        await delete_endpoint(session, gone.id)
    await announce(database)
    assert [m.endpoint_id for m in await messages_of(database)] == [off.id]


async def test_retry_after_moves_the_next_attempt(database, settings, relay, receiver):
    """Later than the plan (5 s), never earlier."""
    url = receiver.on("/hook", Answer(503, headers=(("Retry-After", "600"),)))
    await endpoint_at(database, settings, url, ["*"])
    await announce(database)
    await relay.run_once()
    (message,) = await messages_of(database)
    assert message.status is Status.PENDING
    wait = message.available_at.timestamp() - time.time()
    assert 580 < wait < 610


async def test_g8_a_stalled_endpoint_delays_no_other(database, settings, relay, receiver):
    """Twenty messages to an endpoint that does not answer; another one gets its own meanwhile."""
    hold = asyncio.Event()
    slow = receiver.on("/slow", Answer(hold=hold))
    await endpoint_at(database, settings, slow, ["noise.*"])
    await endpoint_at(database, settings, receiver.url_for("/fast"), ["order.*"])
    for _ in range(20):
        await announce(database, type="noise.made")
    running = asyncio.create_task(relay.run())
    await receiver.wait_for(settings.endpoint_concurrency, path="/slow")
    await announce(database)
    await receiver.wait_for(1, path="/fast")
    assert len(receiver.at("/slow")) == settings.endpoint_concurrency
    hold.set()
    await receiver.wait_for(20, path="/slow")
    relay.stop()
    await running
    assert {m.status for m in await messages_of(database)} == {Status.SENT}


async def test_a_message_whose_last_attempt_was_lost_is_parked_and_not_sent_once_more(
    database, settings, relay, receiver
):
    """12 attempts are 12: the relay that takes it over makes no request."""
    await endpoint_at(database, settings, receiver.url, ["*"])
    await announce(database)
    async with database.transaction() as session:
        await session.execute(
            update(outbox_messages).values(
                attempts=12, claim_token=uuid7(), claimed_at=db_now_plus(-90),
                lease_until=db_now_plus(-30),
            )
        )  # fmt: skip
    await relay.drain()
    assert receiver.requests == []
    (message,) = await messages_of(database)
    assert (message.status, message.parked_reason) == (Status.PARKED, ParkedReason.EXHAUSTED)
    assert message.attempts == 12
    assert message.last_error == "none of the 12 attempts that its retry policy allows is left"
    assert [(a.number, a.outcome) for a in message.attempt_log] == [(12, "lost")]
    async with database.transaction() as session:
        await retry(session, message.id)
    await relay.run_once()
    (request,) = receiver.requests
    assert request.headers["webhook-attempt"] == "13"


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_an_answer_that_came_before_the_stop_counts(database, settings, receiver):
    """The relay stops while what the answer says of the endpoint can't be written yet: the 2xx is
    settled all the same, or the receiver would get the message again for sure.
    """
    await endpoint_at(database, settings, receiver.url, ["order.*"])
    async with database.transaction() as session:
        since = db_now_plus(-600)
        await session.execute(update(endpoints).values(failing_since=since))
    hurried = replace(settings, shutdown_seconds=0.5)
    deliverer = WebhookDeliverer(database, CIPHER, hurried)
    metrics = RelayMetrics(CollectorRegistry())
    relay = Relay(database, {"webhook": deliverer}, hurried, metrics)
    run = asyncio.create_task(relay.run())
    other = Database(settings)
    async with other.transaction() as held:
        await held.execute(select(endpoints).with_for_update())
        async with database.transaction() as session:
            await publish(session, Event(type="order.paid", data={}))
        await receiver.wait_for(1)
        relay.stop()
        counts = await run
    assert counts.delivered == 1
    await deliverer.close()
    await other.dispose()
