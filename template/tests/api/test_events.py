"""`POST /api/events`: one event or a list, and what is stored of it."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
from sqlalchemy import select

from app.config import Settings
from app.outbox.message import webhook_destination
from app.outbox.tables import events, outbox_messages
from tests.conftest import settings_for
from tests.support.site import Site, opened


async def test_an_event_is_stored_with_a_message_for_each_subscribed_endpoint(site: Site):
    """201 with the event's id and the number of messages; the body is what will be sent."""
    first = await site.endpoint("some.*", "some.thing")
    second = await site.endpoint("*")
    await site.endpoint("other.*")
    await site.endpoint("*", tenant="acme")
    headers = await site.headers("events:write")
    body = {"type": "some.thing", "data": {"n": 1}, "occurred_at": "2026-01-31T13:00:00+01:00"}
    answer = await site.client.post("/api/events", json=body, headers=headers)
    assert answer.status_code == 201
    assert answer.json()["messages"] == 2
    async with site.database.read() as session:
        row = (await session.execute(select(events))).one()
        owed = await session.scalars(select(outbox_messages.c.destination))
        assert set(owed) == {webhook_destination(first), webhook_destination(second)}
    assert str(row.id) == answer.json()["id"]
    assert msgspec.json.decode(row.body) == {
        "type": "some.thing", "timestamp": "2026-01-31T12:00:00Z", "data": {"n": 1},
    }  # fmt: skip


async def test_a_list_is_stored_whole_or_not_at_all(site: Site):
    """One bad event in the middle refuses all of them, and says which rule it breaks."""
    headers = await site.headers("events:write")
    good = [{"type": f"a.b{n}", "data": n} for n in range(5)]
    answer = await site.client.post("/api/events", json={"events": good}, headers=headers)
    assert answer.status_code == 201
    assert [set(one) for one in answer.json()["events"]] == [{"id", "messages"}] * 5
    bad = [*good[:2], {"type": "not a type", "data": 1}, *good[2:]]
    answer = await site.client.post("/api/events", json={"events": bad}, headers=headers)
    assert answer.status_code == 400
    assert await site.count(events) == 5


async def test_a_key_can_not_publish_what_only_the_application_tells(site: Site):
    """422 naming the type, the rule and the way out, for one event and within a list."""
    await site.endpoint("endpoint.*", "message.*")
    headers = await site.headers("admin")
    for reserved in ("endpoint.disabled", "message.parked", "message", "endpoint.of_our_own"):
        forged = {"type": reserved, "data": {}}
        batch = {"events": [{"type": "a.b", "data": 1}, forged]}
        for body, path in ((forged, "type"), (batch, "events[1].type")):
            answer = await site.client.post("/api/events", json=body, headers=headers)
            problem = answer.json()
            assert (answer.status_code, problem["status"]) == (422, 422)
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem["detail"].startswith(f"{path}: '{reserved}' is reserved")
            assert "endpoint.* and message.* are told by" in problem["detail"]
            assert f"shop.{reserved}" in problem["hint"]
    assert await site.count(events) == 0
    for allowed in ("endpoints.listed", "messages", "shop.endpoint.disabled"):
        body = {"type": allowed, "data": {}}
        answer = await site.client.post("/api/events", json=body, headers=headers)
        assert answer.status_code == 201


async def test_the_answer_of_a_list_keeps_its_order(site: Site):
    """The n-th id is the n-th event's."""
    headers = await site.headers("events:write")
    body = {"events": [{"type": f"a.b{n}", "data": n} for n in range(20)]}
    answer = await site.client.post("/api/events", json=body, headers=headers)
    async with site.database.read() as session:
        rows = await session.execute(select(events.c.id, events.c.type))
        types = {str(row.id): row.type for row in rows}
    assert [types[one["id"]] for one in answer.json()["events"]] == [f"a.b{n}" for n in range(20)]


async def test_a_delayed_event_is_available_later(site: Site):
    """`available_at` holds its messages back."""
    await site.endpoint("*")
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    body = {"type": "a.b", "data": 1, "available_at": later.isoformat(), "ordering_key": "k"}
    headers = await site.headers("events:write")
    assert (await site.client.post("/api/events", json=body, headers=headers)).status_code == 201
    async with site.database.read() as session:
        assert await session.scalar(select(outbox_messages.c.available_at)) == later
        assert await session.scalar(select(events.c.ordering_key)) == "k"


async def test_numbers_survive_as_they_were_sent(site: Site):
    """A number beyond 64 bits is neither refused nor rounded."""
    headers = await site.headers("events:write") | {"Content-Type": "application/json"}
    body = b'{"type":"a.b","data":[123456789012345678901234567890,0.1,-0.0,1e300]}'
    assert (await site.client.post("/api/events", content=body, headers=headers)).status_code == 201
    async with site.database.read() as session:
        stored = await session.scalar(select(events.c.body))
    assert msgspec.json.decode(stored)["data"] == [123456789012345678901234567890, 0.1, -0.0, 1e300]


async def test_an_unregistered_type_is_taken_and_counted(site: Site):
    """Anybody may publish any well-formed type; metrics tell that it is not promised."""
    headers = await site.headers("admin")
    await site.client.post("/api/events", json={"type": "a.b", "data": 1}, headers=headers)
    page = (await site.client.get("/metrics", headers=headers)).text
    assert "events_unregistered_total 1.0" in page


async def test_an_unregistered_type_is_refused_when_registered_ones_are_required(sqlite_url: str):
    """APP_REQUIRE_REGISTERED_TYPES."""
    settings: Settings = settings_for(sqlite_url, APP_REQUIRE_REGISTERED_TYPES="true")
    async with opened(settings) as site:
        headers = await site.headers("events:write")
        body = {"type": "a.b", "data": 1}
        answer = await site.client.post("/api/events", json=body, headers=headers)
        assert answer.status_code == 400
        assert "a.b" in answer.json()["detail"]
        assert await site.count(events) == 0


async def test_the_trace_of_the_request_travels_on_the_event(site: Site):
    """A valid `traceparent` is stored, a malformed one counts as none."""
    headers = await site.headers("events:write")
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = [good, "00-" + "0" * 32 + "-b7ad6b7169203331-01", "x" * 500, "00-\xff", None]
    for value in sent:
        extra = {} if value is None else {"traceparent": value.encode("latin-1")}
        raw = {name: text.encode() for name, text in headers.items()} | extra
        body = {"type": "a.b", "data": 1}
        assert (await site.client.post("/api/events", json=body, headers=raw)).status_code == 201
    async with site.database.read() as session:
        stored = list(await session.scalars(select(events.c.traceparent).order_by(events.c.id)))
    assert stored == [good, None, None, None, None]


async def test_traces_of_requests_at_the_same_time_do_not_mix(site: Site):
    """Each event carries its own request's trace."""
    headers = await site.headers("events:write")
    traces = [f"00-{n:032x}-{n:016x}-01" for n in range(1, 21)]

    async def send(trace: str) -> None:
        body = {"type": "a.b", "data": trace}
        await site.client.post("/api/events", json=body, headers=headers | {"traceparent": trace})

    await asyncio.gather(*map(send, traces))
    async with site.database.read() as session:
        rows = (await session.execute(select(events.c.body, events.c.traceparent))).all()
    assert len(rows) == 20
    assert all(msgspec.json.decode(row.body)["data"] == row.traceparent for row in rows)
