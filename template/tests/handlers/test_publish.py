"""An event that is published while a handler is registered owes it a message; and what follows."""

import pytest

from app.handlers.deliverer import HandlerDeliverer
from app.handlers.handler import handler
from app.handlers.registry import Handlers
from app.outbox.event import Event
from app.outbox.message import Status
from app.outbox.messages import MessageFilter, get_message, list_messages, retry
from app.outbox.publish import HANDLERS, publish, publish_all
from tests.handlers.factories import park, recording, refuse
from tests.handlers.test_handler import nothing
from tests.outbox.factories import given_destination, message_rows
from tests.relay.conftest import MakeRelay


def register(database, settings, *handlers) -> Handlers:
    found = Handlers.of(handlers, settings)
    database.session_info[HANDLERS] = found.owed()
    return found


async def test_each_matching_handler_is_owed_one_message_whatever_the_tenant(database, settings):
    """By pattern like an endpoint; two patterns of endpoints beside it change nothing."""
    await given_destination(database, "test:a", "acme", ["*", "order.*"])
    register(
        database, settings,
        handler("every", "*")(nothing), handler("orders", "order.*")(nothing),
        handler("paid", "order.paid")(nothing), handler("stock", "stock.*")(nothing),
    )  # fmt: skip
    batch = [
        Event(type="order.paid", data=1, tenant="acme"),
        Event(type="order.created", data=1, tenant=""),
        Event(type="endpoint.disabled", data=1),
        Event(type="order.paid", data=1, ordering_key="k"),
    ]
    async with database.transaction() as session:
        published = await publish_all(session, batch)
    assert [each.messages for each in published] == [4, 2, 0, 3]
    rows = await message_rows(database)
    got = [sorted(r["destination"] for r in rows if r["event_id"] == p.event_id) for p in published]
    assert got == [
        ["handler:every", "handler:orders", "handler:paid", "test:a"],
        ["handler:every", "handler:orders"],
        [],
        ["handler:every", "handler:orders", "handler:paid"],
    ]


async def test_g1_a_rollback_owes_a_handler_nothing(database, settings):
    """Its message is part of the same transaction."""
    register(database, settings, handler("every", "*")(nothing))

    async def fail() -> None:
        async with database.transaction() as session:
            assert (await publish(session, Event(type="a.b", data=1))).messages == 1
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await message_rows(database) == []


async def test_a_message_for_a_handler_goes_the_way_of_every_message(
    database, settings, make_relay: MakeRelay
):
    """Claimed, called, settled; a failure is tried again, parked, retried by a person."""
    take, seen = recording()
    handlers = register(database, settings, take, refuse)
    relay = make_relay({"handler": HandlerDeliverer(database, handlers, settings)})
    async with database.transaction() as session:
        await publish(session, Event(type="order.paid", data={"id": 7}))
    await relay.run_once()
    assert [received.data for received in seen] == [{"id": 7}]
    async with database.read() as session:
        [failed, sent] = sorted(
            (await list_messages(session, MessageFilter())).items, key=lambda m: m.status
        )
        detail = await get_message(session, failed.id)
    assert (sent.destination, sent.status) == ("handler:taken", Status.SENT)
    assert (failed.destination, failed.status) == ("handler:refused", Status.PENDING)
    assert failed.last_error is not None
    assert failed.last_error.startswith("LookupError: no printer")
    assert [(a.outcome, a.error_kind) for a in detail.attempt_log] == [("failed", "handler")]


async def test_a_parked_message_of_a_handler_is_retried_under_its_id(
    database, settings, make_relay: MakeRelay
):
    """Mended, retried, done: the function sees the same message id."""
    handlers = register(database, settings, park)
    relay = make_relay({"handler": HandlerDeliverer(database, handlers, settings)})
    async with database.transaction() as session:
        await publish(session, Event(type="order.paid", data={}))
    await relay.run_once()
    [row] = await message_rows(database)
    assert (row["status"], row["parked_reason"]) == ("parked", "rejected")
    take, seen = recording()
    mended = handler("parking", "*")(take.function)
    again = make_relay(
        {"handler": HandlerDeliverer(database, Handlers.of([mended], settings), settings)}
    )
    async with database.transaction() as session:
        await retry(session, row["id"])
    await again.run_once()
    assert [(r.message_id, r.attempt) for r in seen] == [(row["id"], 2)]
    [row] = await message_rows(database)
    assert row["status"] == "sent"
