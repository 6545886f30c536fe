"""Who gets a message: destinations of the tenant whose patterns match; nobody else."""

from sqlalchemy import func, select

from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.publish import publish_all
from app.outbox.tables import events
from tests.outbox.factories import (
    given_destination,
    given_events,
    message_rows,
)

TENANTS = ["", "a", "A", "b", "a ", "*", "%", "a%", "\u00e4", "a.b"]


async def test_an_event_goes_to_destinations_of_its_own_tenant_only(database: Database):
    """Exactly the same text: no prefix, no wildcard, no case folding; '' is a tenant too."""
    for number, tenant in enumerate(TENANTS):
        await given_destination(database, f"test:{number}", tenant, ["*", "order.*", "order.paid"])
    async with database.transaction() as session:
        await publish_all(
            session, [Event(type="order.paid", data=t, tenant=t) for t in (*TENANTS, "none")]
        )
    async with database.read() as session:
        found = await session.execute(select(events.c.id, events.c.tenant))
        tenant_of = {row.id: row.tenant for row in found}
    reached = sorted(
        (tenant_of[r["event_id"]], r["destination"]) for r in await message_rows(database)
    )
    assert reached == sorted((tenant, f"test:{n}") for n, tenant in enumerate(TENANTS))


async def test_an_event_that_nobody_wants_is_stored_and_owes_nothing(database: Database):
    """It stays for a replay to an endpoint that comes later."""
    await given_destination(database, patterns=["stock.*"])
    [published] = await given_events(database)
    assert published.messages == 0
    assert await message_rows(database) == []
    async with database.read() as session:
        assert (await session.execute(select(func.count()).select_from(events))).scalar() == 1


async def test_a_destination_gets_one_message_however_many_of_its_patterns_match(
    database: Database,
):
    """Fan-out is per destination."""
    await given_destination(database, patterns=["*", "order.*", "order.paid"])
    assert [p.messages for p in await given_events(database, 3)] == [1, 1, 1]
