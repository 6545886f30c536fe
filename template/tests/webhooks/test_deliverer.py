"""Destinations of kind `webhook` over real HTTP and real databases."""

import asyncio
import time

import pytest
from sqlalchemy import select

from app.api.tables import audit_log
from app.outbox.message import (
    Deferred,
    Delivered,
    ErrorKind,
    Failed,
    ParkedReason,
)
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.endpoints import (
    delete_endpoint,
    disable_endpoint,
    get_endpoint,
)
from tests.support.receiver import Answer, Fault
from tests.webhooks.factories import BODY, CIPHER, TRACE, claim_for, endpoint_at


async def test_the_official_library_verifies_what_arrives(database, settings, deliverer, receiver):
    """Standard Webhooks headers over the exact body, and our own headers beside them."""
    made = await endpoint_at(database, settings, receiver.url_for("/hook"))
    claim = claim_for(made.id, attempt=3, traceparent=TRACE)
    outcome = await deliverer.deliver(claim)
    assert isinstance(outcome, Delivered)
    (got,) = receiver.requests
    assert got.verify(made.secret)["data"] == {"id": 1}
    assert got.body == BODY
    assert got.webhook_id == str(claim.message_id)
    assert got.headers["webhook-event-id"] == str(claim.event_id)
    assert got.headers["webhook-attempt"] == "3"
    assert got.headers["traceparent"] == TRACE
    assert got.headers["content-type"] == "application/json"
    assert "/" in got.headers["user-agent"] or got.headers["user-agent"] == "app"
    assert abs(int(got.headers["webhook-timestamp"]) - got.at) < 5


async def test_g5_every_attempt_carries_the_same_webhook_id(
    database, settings, deliverer, receiver
):
    """A receiver recognises a repetition by it; the timestamp is the attempt's own."""
    url = receiver.on("/hook", Answer(500), Answer(200))
    made = await endpoint_at(database, settings, url)
    first = claim_for(made.id)
    again = claim_for(made.id, message_id=first.message_id, attempt=2)
    outcomes = [await deliverer.deliver(first), await deliverer.deliver(again)]
    assert [type(o) for o in outcomes] == [Failed, Delivered]
    assert {r.webhook_id for r in receiver.requests} == {str(first.message_id)}
    assert [r.headers["webhook-attempt"] for r in receiver.requests] == ["1", "2"]


async def test_a_traceparent_that_is_none_is_left_out(database, settings, deliverer, receiver):
    """What could break a header line never reaches one."""
    made = await endpoint_at(database, settings, receiver.url)
    await deliverer.deliver(claim_for(made.id, traceparent="x\r\nx-evil: 1"))
    (got,) = receiver.requests
    assert "traceparent" not in got.headers
    assert "x-evil" not in got.headers


async def test_a_failure_keeps_status_headers_and_body(database, settings, deliverer, receiver):
    """What the receiver said is the evidence that a person will read."""
    answer = Answer(503, body=b"maintenance", headers=(("Retry-After", "77"), ("x-pod", "a1")))
    made = await endpoint_at(database, settings, receiver.on("/hook", answer))
    outcome = await deliverer.deliver(claim_for(made.id))
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.park, outcome.retry_after_seconds) == (
        ErrorKind.STATUS,
        None,
        77.0,
    )
    assert outcome.error == "answered 503 Service Unavailable"
    assert outcome.response is not None
    assert outcome.response.body == b"maintenance"
    assert b"x-pod: a1\r\n" in outcome.response.head


async def test_an_error_never_shows_the_path_or_query(database, settings, deliverer, receiver):
    """URLs hold tokens; an error is stored and shown."""
    url = receiver.on("/hook-token?key=s3cret", Answer(fault=Fault.SILENT))
    made = await endpoint_at(database, settings, url, timeout_seconds=0.2)
    outcome = await deliverer.deliver(claim_for(made.id))
    assert isinstance(outcome, Failed)
    assert outcome.kind is ErrorKind.TIMEOUT
    assert "s3cret" not in outcome.error
    assert "token" not in outcome.error


async def test_an_endpoints_own_timeout_counts(database, settings, deliverer, receiver):
    """0.2 s instead of the default 15."""
    url = receiver.on("/hook", Answer(fault=Fault.SILENT))
    made = await endpoint_at(database, settings, url, timeout_seconds=0.2)
    started = time.monotonic()
    outcome = await deliverer.deliver(claim_for(made.id))
    assert isinstance(outcome, Failed)
    assert time.monotonic() - started < 10


async def test_410_parks_the_message_and_disables_the_endpoint(
    database, settings, deliverer, receiver
):
    """Gone is for good: the next message costs no attempt and no request."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(410)))
    outcome = await deliverer.deliver(claim_for(made.id))
    assert isinstance(outcome, Failed)
    assert outcome.park is ParkedReason.GONE
    async with database.read() as session:
        endpoint = await get_endpoint(session, made.id)
        (entry,) = (await session.execute(select(audit_log))).all()
    assert (endpoint.status, endpoint.disabled_reason) == ("disabled", "it answered 410 Gone")
    assert (entry.actor, entry.action, entry.target) == ("relay", "endpoint.disable", str(made.id))
    after = await deliverer.deliver(claim_for(made.id))
    assert isinstance(after, Deferred)
    assert after.park is ParkedReason.ENDPOINT_DISABLED
    assert len(receiver.requests) == 1


async def test_410_is_noticed_at_once_even_by_a_deliverer_that_reads_seldom(
    database, settings, receiver
):
    """The deliverer forgets what it knew of an endpoint that it has disabled itself."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(410)))
    deliverer = WebhookDeliverer(database, CIPHER, settings, fresh_seconds=3600)
    await deliverer.deliver(claim_for(made.id))
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Deferred)
    await deliverer.close()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("disable", ParkedReason.ENDPOINT_DISABLED),
        ("delete", ParkedReason.ENDPOINT_DELETED),
    ],
)
async def test_a_disabled_or_deleted_endpoint_parks_and_sends_nothing(
    database, settings, deliverer, receiver, end, reason
):
    """A deferral with a reason to park: no attempt is spent."""
    made = await endpoint_at(database, settings, receiver.url)
    async with database.transaction() as session:
        if end == "disable":
            await disable_endpoint(session, made.id, "test")
        else:
            await delete_endpoint(session, made.id)
    outcome = await deliverer.deliver(claim_for(made.id))
    assert isinstance(outcome, Deferred)
    assert outcome.park is reason
    assert receiver.requests == []


async def test_g9_no_transaction_is_open_while_a_request_is_out(
    database, settings, deliverer, receiver
):
    """Every connection is back in its pool before the receiver has answered."""
    hold = asyncio.Event()
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(hold=hold)))
    task = asyncio.create_task(deliverer.deliver(claim_for(made.id)))
    await receiver.wait_for(1)
    pools = [database.reader.pool, database.writer.pool]
    assert [pool.checkedout() for pool in pools] == [0, 0]
    hold.set()
    assert isinstance(await task, Delivered)
