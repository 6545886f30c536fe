"""`ordering` of an endpoint: accepted, shown, refused, and what a receiver sees of it."""

import asyncio

import pytest

from app.errors import BadRequest
from app.outbox.event import Event
from app.outbox.message import Ordering, Status
from app.outbox.messages import MessageFilter, list_messages
from app.outbox.publish import publish
from app.webhooks.endpoint import EndpointCreate, EndpointUpdate
from app.webhooks.endpoints import (
    create_endpoint,
    delete_endpoint,
    get_endpoint,
    list_endpoints,
    update_endpoint,
)
from tests.support.receiver import Answer
from tests.webhooks.test_end_to_end import CIPHER, relay

__all__ = ["relay"]  # the fixture


async def given(database, settings, url: str = "https://example.com", **fields):
    async with database.transaction() as session:
        wanted = EndpointCreate(url=url, types=["*"], **fields)
        return await create_endpoint(session, CIPHER, settings, wanted, "")


async def changed(database, settings, endpoint_id, **fields):
    async with database.transaction() as session:
        return await update_endpoint(
            session, CIPHER, settings, endpoint_id, EndpointUpdate(**fields)
        )


async def announce(database, *keys: str | None):
    async with database.transaction() as session:
        for key in keys:
            await publish(session, Event(type="order.paid", data=None, ordering_key=key))


async def test_ordering_is_a_field_of_the_endpoint(database, settings):
    """At creation, in a change, alone, in a list; a gap only where one is waited for."""
    made = await given(database, settings, ordering=Ordering.YIELD, gap_seconds=5)
    assert (made.ordering, made.gap_seconds) == (Ordering.YIELD, 5)
    other = await given(database, settings)
    assert (other.ordering, other.gap_seconds) == (Ordering.NONE, None)
    after = await changed(database, settings, made.id, gap_seconds=None)
    assert (after.ordering, after.gap_seconds) == (Ordering.YIELD, 60)
    after = await changed(database, settings, made.id, ordering=Ordering.STRICT)
    assert (after.ordering, after.gap_seconds) == (Ordering.STRICT, None)
    await changed(database, settings, made.id, description="untouched")
    async with database.read() as session:
        assert (await get_endpoint(session, made.id)).ordering is Ordering.STRICT
        listed = {e.id: e.ordering for e in await list_endpoints(session)}
    assert listed == {made.id: Ordering.STRICT, other.id: Ordering.NONE}


@pytest.mark.parametrize(
    "fields",
    [
        {"gap_seconds": 5},
        {"ordering": Ordering.STRICT, "gap_seconds": 5},
        {"ordering": Ordering.YIELD, "gap_seconds": 0},
        {"ordering": Ordering.YIELD, "gap_seconds": float("nan")},
        {"ordering": Ordering.YIELD, "gap_seconds": 1e9},
    ],
)
async def test_a_gap_that_means_nothing_is_refused(database, settings, fields):
    """Not stored and then ignored; nothing is left behind."""
    with pytest.raises(BadRequest, match="gap_seconds"):
        await given(database, settings, **fields)
    async with database.read() as session:
        assert await list_endpoints(session) == []


async def test_an_ordered_request_carries_its_sequence_and_no_other_does(
    database, settings, relay, receiver
):
    """The same number on each attempt, so that a receiver can put a replacement in its place."""
    url = receiver.on("/ordered", Answer(503), Answer(200))
    ordered = await given(database, settings, url, ordering=Ordering.STRICT)
    await given(database, settings, receiver.url_for("/plain"))
    await announce(database, "customer 7", "customer 7", None)
    await asyncio.wait_for(relay.drain(), 60)
    assert [r.headers.get("webhook-sequence") for r in receiver.at("/plain")] == [None] * 3
    seen = [r.headers.get("webhook-sequence") for r in receiver.at("/ordered")]
    assert sorted(seen, key=str) == ["1", None]
    async with database.read() as session:
        page = await list_messages(session, MessageFilter(endpoint_id=ordered.id))
    assert sorted(m.status for m in page.items) == [Status.PENDING, Status.PENDING, Status.SENT]


async def test_deleting_a_strict_endpoint_parks_its_whole_line(database, settings, relay, receiver):
    """A parked head would otherwise hold the others for ever."""
    made = await given(database, settings, receiver.url_for("/x"), ordering=Ordering.STRICT)
    await announce(database, "a", "a", "a", "b")
    async with database.transaction() as session:
        await delete_endpoint(session, made.id)
    await asyncio.wait_for(relay.drain(), 60)
    async with database.read() as session:
        items = (await list_messages(session, MessageFilter())).items
    assert [m.parked_reason for m in items] == ["endpoint_deleted"] * 4
    assert receiver.requests == []


async def test_a_change_of_ordering_while_messages_wait_loses_none(
    database, settings, relay, receiver
):
    """Off and on again between two drains: all arrive."""
    made = await given(database, settings, receiver.url_for("/x"), ordering=Ordering.STRICT)
    await announce(database, *["a"] * 5, *["b"] * 5)
    await changed(database, settings, made.id, ordering=Ordering.NONE)
    await announce(database, "a", "b")
    await changed(database, settings, made.id, ordering=Ordering.SKIP)
    await asyncio.wait_for(relay.drain(), 60)
    seen = [int(r.headers["webhook-sequence"]) for r in receiver.requests]
    assert sorted(seen) == sorted([1, 2, 3, 4, 5, 6] * 2)
    async with database.read() as session:
        items = (await list_messages(session, MessageFilter())).items
    assert {m.status for m in items} == {Status.SENT}
