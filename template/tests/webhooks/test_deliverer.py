"""Destinations of kind `webhook` over real HTTP and real databases."""

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from sqlalchemy import event, select, text, update

from app.api.tables import audit_log
from app.cipher import Cipher
from app.db.engine import Database
from app.ids import uuid7
from app.outbox.message import (
    Claim,
    Deferred,
    Delivered,
    ErrorKind,
    Failed,
    ParkedReason,
    webhook_destination,
)
from app.outbox.policy import DEFAULT_POLICY, Ladder
from app.webhooks import known
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.endpoint import EndpointCreate, EndpointUpdate
from app.webhooks.endpoints import (
    create_endpoint,
    delete_endpoint,
    disable_endpoint,
    get_endpoint,
    rotate_secret,
    update_endpoint,
)
from app.webhooks.tables import endpoint_secrets, endpoints
from tests.conftest import SECRET, settings_for
from tests.support.receiver import Answer, Fault, Receiver

CIPHER = Cipher(SECRET)
BODY = b'{"type":"order.paid","timestamp":"2026-11-30T12:00:00Z","data":{"id":1}}'
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def deliverer(database, settings) -> AsyncIterator[WebhookDeliverer]:
    """Reads the endpoint before every request, so that a test sees its change at once."""
    deliverer = WebhookDeliverer(database, CIPHER, settings, fresh_seconds=0)
    yield deliverer
    await deliverer.close()


async def endpoint_at(database, settings, url: str, **fields):
    wanted = EndpointCreate(url=url, types=["*"], **fields)
    async with database.transaction() as session:
        return await create_endpoint(session, CIPHER, settings, wanted, "")


def claim_for(endpoint_id: UUID, **changes) -> Claim:
    given = {
        "message_id": uuid7(),
        "event_id": uuid7(),
        "type": "order.paid",
        "tenant": "",
        "destination": webhook_destination(endpoint_id),
        "token": uuid7(),
        "attempt": 1,
        "ladder_start": 0,
        "age_seconds": 0.0,
        "body": BODY,
        "traceparent": None,
        "lone": False,
        "claimed_at": time.monotonic(),
    }
    return Claim(**given | changes)


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


async def test_an_endpoint_that_never_existed_parks_as_deleted(database, deliverer):
    """A row can only be missing because somebody removed it by hand."""
    outcome = await deliverer.deliver(claim_for(uuid7()))
    assert isinstance(outcome, Deferred)
    assert outcome.park is ParkedReason.ENDPOINT_DELETED


async def test_a_malformed_destination_parks_and_never_raises(database, deliverer):
    """`webhook:` with something that is no id."""
    outcome = await deliverer.deliver(claim_for(uuid7(), destination="webhook:not-an-id"))
    assert isinstance(outcome, Deferred)
    assert outcome.park is ParkedReason.ENDPOINT_DELETED


@pytest.mark.parametrize(
    "damage",
    [
        update(endpoints).values(retry={"kind": "nonsense"}),
        update(endpoint_secrets).values(ciphertext=b"\x01damaged"),
    ],
    ids=["policy", "secret"],
)
async def test_damaged_data_parks_the_message_instead_of_guessing(
    database, settings, deliverer, receiver, damage
):
    """Neither an unsigned request nor a schedule that nobody chose."""
    made = await endpoint_at(database, settings, receiver.url)
    async with database.transaction() as session:
        await session.execute(damage)
    outcome = await deliverer.deliver(claim_for(made.id))
    assert isinstance(outcome, Deferred)
    assert outcome.park is ParkedReason.UNDELIVERABLE
    assert receiver.requests == []


async def test_during_a_rotation_either_secret_verifies_and_afterwards_only_the_new(
    database, settings, deliverer, receiver
):
    """Both sign until the overlap ends; the receiver changes over when it likes."""
    made = await endpoint_at(database, settings, receiver.url)
    async with database.transaction() as session:
        rotated = await rotate_secret(session, CIPHER, made.id, 3600)
    await deliverer.deliver(claim_for(made.id))
    receiver.requests[0].verify(made.secret)
    receiver.requests[0].verify(rotated.secret)
    async with database.transaction() as session:
        old = update(endpoint_secrets).where(endpoint_secrets.c.expires_at.is_not(None))
        await session.execute(old.values(expires_at=made.created_at))
    await deliverer.deliver(claim_for(made.id))
    receiver.requests[1].verify(rotated.secret)
    assert receiver.requests[1].headers["webhook-signature"].count("v1,") == 1


async def test_a_change_is_noticed_within_a_second_without_being_told(database, settings, receiver):
    """Another process changed the URL: knowledge is never older than a second."""
    made = await endpoint_at(database, settings, receiver.url_for("/old"))
    deliverer = WebhookDeliverer(database, CIPHER, settings)
    await deliverer.deliver(claim_for(made.id))
    async with database.transaction() as session:
        moved = EndpointUpdate(url=receiver.url_for("/new"))
        await update_endpoint(session, settings, made.id, moved)
    deadline = time.monotonic() + 5
    while not receiver.at("/new"):
        assert time.monotonic() < deadline
        await deliverer.deliver(claim_for(made.id))
    old = receiver.at("/old")
    assert old[-1].at - old[0].at < 3  # a second, and what a busy machine adds
    await deliverer.close()


async def test_many_messages_of_many_endpoints_need_one_read(database, settings, receiver):
    """Knowledge is shared and read in one statement, not once for each message."""
    made = [await endpoint_at(database, settings, receiver.url) for _ in range(10)]
    deliverer = WebhookDeliverer(database, CIPHER, settings, fresh_seconds=60)
    reads = []
    event.listen(
        database.reader.sync_engine,
        "before_cursor_execute",
        lambda *a: reads.append(a[2]) if "endpoint_secrets" in a[2] else None,
    )
    claims = [claim_for(endpoint.id) for endpoint in made for _ in range(5)]
    outcomes = await asyncio.gather(*(deliverer.deliver(claim) for claim in claims))
    assert all(isinstance(outcome, Delivered) for outcome in outcomes)
    assert len(receiver.requests) == 50
    assert len(reads) <= 2
    await deliverer.close()


async def test_the_policy_of_the_endpoint_is_known_after_an_attempt(
    database, settings, deliverer, receiver
):
    """The relay asks for it to decide what comes next."""
    ladder = Ladder(delays_seconds=(60.0, 300.0))
    made = await endpoint_at(database, settings, receiver.url, retry=ladder)
    other = await endpoint_at(database, settings, receiver.url)
    for endpoint in (made, other):
        await deliverer.deliver(claim_for(endpoint.id))
    assert deliverer.policy(webhook_destination(made.id)) == ladder
    assert deliverer.policy(webhook_destination(other.id)) == DEFAULT_POLICY
    assert deliverer.policy("webhook:unknown") == DEFAULT_POLICY


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


async def test_a_database_without_tables_defers_and_spends_nothing(tmp_path):
    """An internal fault is no failure of the endpoint."""
    empty = settings_for(f"sqlite+aiosqlite:///{tmp_path}/empty.db")
    database = Database(empty)
    deliverer = WebhookDeliverer(database, CIPHER, empty)
    outcome = await deliverer.deliver(claim_for(uuid7()))
    assert isinstance(outcome, Deferred)
    assert outcome.park is None
    await deliverer.close()
    await database.dispose()


async def test_a_database_that_does_not_answer_holds_no_sender(
    postgresql_url, receiver, monkeypatch
):
    """The read is given up in time, and the next one works: the connection is not needed again."""
    monkeypatch.setattr(known, "READ_SECONDS", 0.3)
    settings = settings_for(postgresql_url)
    database = Database(settings)
    made = await endpoint_at(database, settings, receiver.url)
    deliverer = WebhookDeliverer(database, CIPHER, settings)
    async with database.transaction() as session:
        await session.execute(text("LOCK TABLE endpoints IN ACCESS EXCLUSIVE MODE"))
        claims = [claim_for(made.id) for _ in range(3)]
        outcomes = await asyncio.gather(*(deliverer.deliver(claim) for claim in claims))
        assert [type(outcome) for outcome in outcomes] == [Deferred] * 3
        assert {outcome.park for outcome in outcomes} == {None}
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    await deliverer.close()
    await database.dispose()
