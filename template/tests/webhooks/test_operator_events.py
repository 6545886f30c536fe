"""Endpoint health as events: told once, with the change itself, never about themselves."""

import asyncio
import time
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from app.db.dialect import db_now_plus
from app.outbox.message import Deferred, Delivered, Failed
from app.outbox.tables import events, outbox_messages
from app.webhooks.breaker import LEAST_CALLS
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.endpoint import EndpointCreate
from app.webhooks.endpoints import create_endpoint, disable_endpoint
from app.webhooks.health import FAILING_CALLS, FAILING_SECONDS
from app.webhooks.tables import endpoints
from tests.support.receiver import Answer
from tests.webhooks.factories import CIPHER, claim_for, endpoint_at


async def told(database) -> list[tuple[str, str]]:
    """The operator events so far: type and tenant."""
    async with database.read() as session:
        query = select(events.c.type, events.c.tenant).order_by(events.c.id)
        return [(row.type, row.tenant) for row in await session.execute(query)]


async def row(database, made):
    async with database.read() as session:
        return (await session.execute(select(endpoints).where(endpoints.c.id == made.id))).one()


async def failing_for(database, made, hours: float) -> None:
    async with database.transaction() as session:
        since = db_now_plus(-hours * 3600)
        mine = update(endpoints).where(endpoints.c.id == made.id)
        await session.execute(mine.values(failing_since=since))


async def test_failing_and_recovered_are_told_once_each(database, settings, deliverer, receiver):
    """However many messages fail or are delivered meanwhile."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(500)))
    for _ in range(LEAST_CALLS):
        assert isinstance(await deliverer.deliver(claim_for(made.id)), Failed)
    assert (await row(database, made)).failing_since is not None
    assert await told(database) == [("endpoint.failing", "")]
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Deferred)
    receiver.on("/hook", Answer(200))
    async with database.transaction() as session:
        await session.execute(update(endpoints).values(breaker_until=db_now_plus(-1)))
    for _ in range(3):
        assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    assert (await row(database, made)).failing_since is None
    assert await told(database) == [("endpoint.failing", ""), ("endpoint.recovered", "")]


async def test_failing_is_told_after_a_minute_of_nothing_but_failures(
    database, settings, deliverer, receiver
):
    """A few failures at once are none, and a good answer in between begins anew."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(404)))
    claim = claim_for(made.id)
    for _ in range(FAILING_CALLS):
        await deliverer.deliver(claim)
    assert await told(database) == []
    traffic = deliverer._known.traffic(claim.destination)
    traffic.failing_at = time.monotonic() - FAILING_SECONDS
    await deliverer.deliver(claim)
    assert await told(database) == [("endpoint.failing", "")]


async def test_an_endpoint_is_disabled_after_a_time_of_only_failures_and_never_by_count(
    database, settings, deliverer, receiver
):
    """Five days unless configured; audited; the tenant's own event."""
    async with database.transaction() as session:
        wanted = EndpointCreate(url=receiver.on("/hook", Answer(500)), types=["*"])
        made = await create_endpoint(session, CIPHER, settings, wanted, "acme")
    await failing_for(database, made, 119.9)
    for _ in range(LEAST_CALLS - 1):
        await deliverer.deliver(claim_for(made.id, tenant="acme"))
    assert (await row(database, made)).status == "enabled"
    await failing_for(database, made, 120.1)
    await deliverer.deliver(claim_for(made.id, tenant="acme"))
    shown = await row(database, made)
    assert (shown.status, shown.disabled_reason) == (
        "disabled",
        "it has answered nothing but failures for 120 h",
    )
    assert await told(database) == [("endpoint.disabled", "acme")]


async def test_the_time_until_it_is_disabled_is_a_setting(database, settings, receiver):
    """APP_DISABLE_AFTER_HOURS."""
    short = WebhookDeliverer(
        database, CIPHER, replace(settings, disable_after_hours=1.0), fresh_seconds=0
    )
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(500)))
    await failing_for(database, made, 1.1)
    await short.deliver(claim_for(made.id))
    await short.close()
    assert (await row(database, made)).status == "disabled"


async def test_several_relays_tell_it_once(database, settings, receiver):
    """The change decides who tells."""
    relays = [WebhookDeliverer(database, CIPHER, settings, fresh_seconds=0) for _ in range(3)]
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(500)))
    for each in relays:
        for _ in range(LEAST_CALLS - 1):
            await each.deliver(claim_for(made.id))
    await asyncio.gather(*(each.deliver(claim_for(made.id)) for each in relays))
    for each in relays:
        await each.close()
    assert await told(database) == [("endpoint.failing", "")]


@pytest.mark.parametrize("status", [500, 410])
async def test_nothing_that_happens_to_an_operator_event_is_told(
    database, settings, deliverer, receiver, status
):
    """A dead endpoint subscribed to everything would keep itself busy for ever."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(status)))
    await failing_for(database, made, 1000)
    for kind in ("endpoint.failing", "message.parked"):
        for _ in range(LEAST_CALLS):
            await deliverer.deliver(claim_for(made.id, type=kind))
    assert await told(database) == []
    assert ((await row(database, made)).status == "disabled") is (status == 410)


async def test_they_reach_only_patterns_that_name_them(database, settings):
    """`*` gets none: who subscribed to business events did not ask for these."""
    async with database.transaction() as session:
        made = {}
        for name, types in (
            ("all", ["*"]),
            ("named", ["endpoint.*"]),
            ("both", ["*", "endpoint.disabled"]),
        ):
            wanted = EndpointCreate(url=f"https://example.com/{name}", types=types)
            made[name] = await create_endpoint(session, CIPHER, settings, wanted, "")
        wanted = EndpointCreate(url="https://example.com/foreign", types=["endpoint.*"])
        await create_endpoint(session, CIPHER, settings, wanted, "acme")
    async with database.transaction() as session:
        await disable_endpoint(session, made["all"].id, "moving")
        await disable_endpoint(session, made["all"].id, "again")
    async with database.read() as session:
        owed = (await session.execute(select(outbox_messages.c.destination))).scalars().all()
    assert sorted(owed) == sorted(f"webhook:{made[name].id}" for name in ("named", "both"))
    assert await told(database) == [("endpoint.disabled", "")]


async def test_a_good_answer_to_another_relay_ends_the_failures_that_this_one_has_seen(
    database, settings, deliverer, receiver
):
    """Else it would tell of failing since long before that answer."""
    made = await endpoint_at(database, settings, receiver.on("/hook", Answer(404)))
    claim = claim_for(made.id)
    for _ in range(FAILING_CALLS):
        await deliverer.deliver(claim)
    traffic = deliverer._known.traffic(claim.destination)
    traffic.failing_at = time.monotonic() - FAILING_SECONDS
    await deliverer.deliver(claim)
    async with database.transaction() as session:
        await session.execute(update(endpoints).values(failing_since=None))
    await deliverer.deliver(claim)
    assert time.monotonic() - (traffic.failing_at or 0.0) < FAILING_SECONDS
    assert await told(database) == [("endpoint.failing", "")]
