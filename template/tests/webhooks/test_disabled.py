"""An endpoint that is off: what is published meanwhile is kept, to go out later."""

from app.outbox.message import ParkedReason, Status
from app.outbox.messages import retry
from app.webhooks.endpoints import disable_endpoint, enable_endpoint
from tests.webhooks.test_end_to_end import announce, endpoint_at, messages_of
from tests.webhooks.test_end_to_end import relay as relay


async def test_what_a_disabled_endpoint_missed_is_parked_and_delivered_after_a_retry(
    database, settings, relay, receiver
):
    """Stored, parked `endpoint_disabled` without an attempt, retried under the same id."""
    made = await endpoint_at(database, settings, receiver.url, ["*"])
    async with database.transaction() as session:
        await disable_endpoint(session, made.id, "maintenance")
    assert (await announce(database)).messages == 1
    await relay.run_once()
    (parked,) = await messages_of(database)
    assert (parked.status, parked.parked_reason) == (Status.PARKED, ParkedReason.ENDPOINT_DISABLED)
    assert (parked.attempts, receiver.requests) == (0, [])
    async with database.transaction() as session:
        await enable_endpoint(session, made.id)
        await retry(session, parked.id)
    await relay.run_once()
    (request,) = receiver.requests
    assert request.webhook_id == str(parked.id)
    assert [m.status for m in await messages_of(database)] == [Status.SENT]
