"""`message.parked`: with the parking, for those who asked, never about itself."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from msgspec import structs
from sqlalchemy import select

from app.outbox.message import Deferred, ErrorKind, Failed, ParkedReason, Result, Status
from app.outbox.policy import LONE_LOSSES, GiveBack, Park
from app.outbox.store import Settlement, Store, Wanted
from app.outbox.tables import events
from app.webhooks.endpoints import disable_endpoint
from tests.support.receiver import Answer
from tests.webhooks.test_end_to_end import announce, endpoint_at, messages_of, relay

__all__ = ["relay"]  # the fixture


async def types_told(database) -> list[str]:
    async with database.read() as session:
        return list((await session.execute(select(events.c.type).order_by(events.c.id))).scalars())


async def test_a_parked_message_is_told_to_who_asked(database, settings, relay, receiver):
    """With what a person needs to know; `*` gets nothing of it, another tenant neither."""
    dead = receiver.on("/dead", Answer(404))
    made = await endpoint_at(database, settings, dead, ["order.*"])
    await endpoint_at(database, settings, receiver.url_for("/watch"), ["message.parked"])
    await endpoint_at(database, settings, receiver.url_for("/all"), ["*"])
    await endpoint_at(database, settings, receiver.url_for("/acme"), ["message.*"], tenant="acme")
    published = await announce(database)
    await relay.run_once()
    await relay.run_once()
    (told,) = receiver.at("/watch")
    data = told.json["data"]
    (parked,) = [m for m in await messages_of(database) if m.status == Status.PARKED]
    assert data == {
        "message_id": str(parked.id),
        "event_id": str(published.event_id),
        "type": "order.paid",
        "destination": f"webhook:{made.id}",
        "endpoint_id": str(made.id),
        "reason": "rejected",
        "error": "answered 404 Not Found",
        "attempts": 1,
    }
    assert len(receiver.at("/all")) == 1, "the order alone"
    assert receiver.at("/acme") == []


async def test_nothing_is_stored_where_nobody_asked(database, settings, relay, receiver):
    """Disabling an endpoint may park a hundred thousand."""
    await endpoint_at(database, settings, receiver.on("/dead", Answer(404)), ["*"])
    await announce(database)
    await relay.run_once()
    assert await types_told(database) == ["order.paid"]


async def test_a_dead_endpoint_that_is_subscribed_to_everything_gets_one_event_then_silence(
    database, settings, relay, receiver
):
    """What happens to the message of that event is told to nobody."""
    patterns = ["*", "message.*", "endpoint.*"]
    await endpoint_at(database, settings, receiver.on("/dead", Answer(410)), patterns)
    await announce(database)
    for _ in range(5):
        await relay.run_once()
    assert sorted(await types_told(database)) == [
        "endpoint.disabled",
        "message.parked",
        "order.paid",
    ]
    assert {m.status for m in await messages_of(database)} == {Status.PARKED}


async def test_a_message_that_parks_because_its_endpoint_is_disabled_is_told(
    database, settings, relay, receiver
):
    """No attempt was spent on it."""
    made = await endpoint_at(database, settings, receiver.on("/off"), ["order.*"])
    await endpoint_at(database, settings, receiver.url_for("/watch"), ["message.*"])
    await announce(database)
    async with database.transaction() as session:
        await disable_endpoint(session, made.id, "moving")
    await relay.run_once()
    await relay.run_once()
    (told,) = receiver.at("/watch")
    data = told.json["data"]
    assert (data["reason"], data["attempts"]) == ("endpoint_disabled", 0)


@pytest.mark.parametrize("stale", [False, True])
async def test_what_is_not_parked_is_not_told(database, settings, receiver, stale):
    """A settle of a claim that was taken over writes neither; of one that holds, both."""
    made = await endpoint_at(database, settings, receiver.url, ["*", "message.*"])
    for _ in range(2):
        await announce(database)
    store = Store(database)
    claims = (await store.claim([Wanted(f"webhook:{made.id}", 2)])).claims
    if stale:
        claims = [structs.replace(claim, token=uuid4()) for claim in claims]
    failed = Failed(ErrorKind.STATUS, "answered 404 \x00", park=ParkedReason.REJECTED)
    batch = [
        Settlement(Result(claims[0], failed, 0.1, 0.1), Park(ParkedReason.REJECTED)),
        Settlement(
            Result(claims[1], Deferred("off", park=ParkedReason.ENDPOINT_DISABLED), 0.1, 0.1),
            GiveBack(0.0, ParkedReason.ENDPOINT_DISABLED),
        ),
    ]
    written = await store.settle(batch)
    await store.close()
    assert written == (set() if stale else {claim.message_id for claim in claims})
    told = (await types_told(database)).count("message.parked")
    assert told == (0 if stale else 2)


async def test_a_message_that_crashed_its_relays_is_told(database, settings, receiver):
    """It is parked by a claim, not by a settle; told with that claim."""
    made = await endpoint_at(database, settings, receiver.url, ["order.*", "message.parked"])
    await announce(database)
    store, now = Store(database), datetime.now(UTC) + timedelta(seconds=1)
    await store.claim([Wanted(f"webhook:{made.id}", 1)], now)
    await store.claim([Wanted(f"webhook:{made.id}", 1)], now := now + timedelta(minutes=10))
    for _ in range(LONE_LOSSES):
        assert "message.parked" not in await types_told(database)
        (alone,) = (await store.claim_lone(now)).claims
        await store.set_alone(alone, alone=True)
        await store.claim_lone(now := now + timedelta(minutes=10))
        now += timedelta(minutes=10)
    await store.close()
    assert await types_told(database) == ["order.paid", "message.parked"]
    (told,) = [m for m in await messages_of(database) if m.type == "message.parked"]
    assert told.body["data"]["reason"] == "crashed"
