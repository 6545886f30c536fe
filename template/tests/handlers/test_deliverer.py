"""What a handler does, and the outcome that it is."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from app.handlers.deliverer import GRACE_SECONDS, HandlerDeliverer
from app.handlers.handler import Received, handler
from app.handlers.registry import Handlers
from app.outbox.event import encode_body
from app.outbox.message import Deferred, Delivered, ErrorKind, Failed, ParkedReason
from tests.handlers.factories import EVERY, PAID, claim_for, recording
from tests.outbox.deliverer_contract import deliver

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def deliverer(database, settings) -> AsyncIterator[HandlerDeliverer]:
    deliverer = HandlerDeliverer(database, Handlers.of(EVERY, settings), settings)
    yield deliverer
    await deliverer.close()


async def test_a_handler_gets_the_event_and_the_ids_to_recognise_it_by(database, settings):
    """What is stored, decoded; and the database, to open a transaction of its own."""
    take, seen = recording()
    claim = claim_for("handler:taken", attempt=3, traceparent="00-trace")
    deliverer = HandlerDeliverer(database, Handlers.of([take], settings), settings)
    assert await deliver(deliverer, claim) == Delivered()
    [received] = seen
    assert received.data == {"id": 1}
    assert (received.type, received.tenant, received.attempt) == ("order.paid", "acme", 3)
    assert (received.message_id, received.event_id) == (claim.message_id, claim.event_id)
    assert received.occurred_at.isoformat() == "2026-11-30T12:00:00+00:00"
    assert (received.traceparent, received.database) == ("00-trace", database)


async def test_what_a_handler_raises_is_one_line_and_names_the_error(deliverer):
    """Shown with the message; no line break, no end of text."""
    outcome = await deliver(deliverer, claim_for("handler:refused"))
    assert isinstance(outcome, Failed)
    assert outcome.kind is ErrorKind.HANDLER
    assert outcome.error.startswith("LookupError: no printer xxx")
    assert len(outcome.error) == 300


async def test_a_handler_may_park_or_ask_to_be_called_later(deliverer):
    """`ParkMessage` ends it at once, `RetryLater` is a Retry-After."""
    parked = await deliver(deliverer, claim_for("handler:parking"))
    assert parked == Failed(
        ErrorKind.HANDLER, "the customer has no address", park=ParkedReason.REJECTED
    )
    later = await deliver(deliverer, claim_for("handler:later"))
    assert isinstance(later, Failed)
    assert (later.park, later.retry_after_seconds) == (None, 120)


async def test_a_handler_that_does_not_return_in_time_has_failed(deliverer):
    """Also one that ignores being cancelled: it holds up nobody."""
    outcome = await deliver(deliverer, claim_for("handler:stubborn"))
    assert outcome == Failed(ErrorKind.TIMEOUT, "stubborn did not return within 0.05 s")
    assert GRACE_SECONDS < 2


async def test_a_handler_cancelled_from_within_has_failed(deliverer):
    """It does not look like a relay that stops."""
    outcome = await deliver(deliverer, claim_for("handler:cancelling"))
    assert outcome == Failed(ErrorKind.HANDLER, "cancelling was cancelled from within")


async def test_a_typed_handler_gets_its_type_and_what_does_not_fit_is_parked(deliverer):
    """Trying again can't make it fit; a newer version may."""
    body = encode_body(PAID.event(PAID.example), datetime.now(UTC))
    assert await deliver(deliverer, claim_for("handler:typed", body=body)) == Delivered()
    for broken in (b'{"timestamp":"2026-11-30T12:00:00Z","data":{"id":1}}', b"\xff", b"{}", b""):
        outcome = await deliver(deliverer, claim_for("handler:typed", body=broken))
        assert isinstance(outcome, Failed), broken
        assert outcome.park is ParkedReason.UNDELIVERABLE, broken


async def test_an_unknown_handler_is_waited_for_and_then_parked(deliverer):
    """During a deployment the other version knows it; no attempt is spent meanwhile."""
    fresh = await deliver(deliverer, claim_for("handler:new"))
    assert isinstance(fresh, Deferred)
    assert (fresh.park, fresh.delay_seconds) == (None, 30.0)
    old = await deliver(deliverer, claim_for("handler:new", age_seconds=3600.0))
    assert isinstance(old, Deferred)
    assert old.park is ParkedReason.UNDELIVERABLE
    assert "there is no handler 'new' in this version" in old.reason


async def test_g9_a_handler_is_called_with_no_transaction_open(database, settings):
    """On SQLite a second writer would wait for ever: it gets one of its own at once."""

    @handler("writing", "*")
    async def write(received: Received[Any]) -> None:
        async with received.database.transaction() as session:
            await session.execute(text("INSERT INTO inbox_messages VALUES ('a', 'b', '')"))

    deliverer = HandlerDeliverer(database, Handlers.of([write], settings), settings)
    assert await deliver(deliverer, claim_for("handler:writing")) == Delivered()
    async with database.read() as session:
        assert await session.scalar(text("SELECT count(*) FROM inbox_messages")) == 1


async def test_a_handler_is_not_called_once_more_than_its_policy_allows(database, settings):
    """The last attempt was lost with its relay: the message is parked, nothing is called."""
    take, seen = recording()
    deliverer = HandlerDeliverer(database, Handlers.of([take], settings), settings)
    last = claim_for("handler:taken", attempt=22, ladder_start=10, losses=1)
    assert await deliver(deliverer, last) == Delivered()
    beyond = claim_for("handler:taken", attempt=23, ladder_start=10, losses=1)
    outcome = await deliver(deliverer, beyond)
    assert isinstance(outcome, Deferred)
    assert outcome.park is ParkedReason.EXHAUSTED
    assert len(seen) == 1
