"""Erasing a body: gone for ever, and never sent as if it were there."""

import pytest
from sqlalchemy import insert, select

from app.db.engine import Database
from app.errors import Conflict
from app.ids import uuid7
from app.outbox.erasure import ERASED, erase, park_erased
from app.outbox.message import Delivered, Result, Status
from app.outbox.messages import dismiss, get_message, retry
from app.outbox.policy import Sent
from app.outbox.store import Settlement, Store, Wanted
from app.outbox.tables import events, outbox_messages
from tests.outbox.factories import (
    A,
    B,
    given_destination,
    given_events,
    given_parked,
    message_rows,
)


async def test_the_event_stays_without_its_data(database: Database):
    """Body and what receivers answered are gone; type, times and the log of attempts stay."""
    [parked] = await given_parked(database)
    async with database.transaction() as session:
        shown = await erase(session, parked)
    assert shown.body["type"] == "order.paid"
    assert shown.body["data"] is None
    assert [(a.number, a.response_head, a.response_body) for a in shown.attempt_log] == [
        (1, None, None)
    ]
    async with database.read() as session:
        assert (await session.execute(select(events.c.erased_at))).scalar_one() is not None


async def test_what_was_still_to_be_sent_is_parked_as_undeliverable(database: Database):
    """Pending and parked ones; one already sent stays sent."""
    await given_destination(database, A)
    await given_destination(database, B)
    await given_events(database)
    store = Store(database)
    [claim] = (await store.claim([Wanted(A, 1)])).claims
    await store.settle([Settlement(Result(claim, Delivered(), 1, 1), Sent())])
    await store.close()
    async with database.transaction() as session:
        await erase(session, claim.message_id)
    rows = {row["destination"]: row for row in await message_rows(database)}
    assert rows[A]["status"] == "sent"
    assert (rows[B]["status"], rows[B]["parked_reason"]) == ("parked", "undeliverable")
    assert rows[B]["last_error"] == ERASED


async def test_a_claim_that_is_out_loses_its_token(database: Database):
    """Its outcome is lost; nothing of it would go out a second time."""
    await given_destination(database)
    await given_events(database)
    store = Store(database)
    [claim] = (await store.claim([Wanted(A, 1)])).claims
    async with database.transaction() as session:
        await erase(session, claim.message_id)
    settled = await store.settle([Settlement(Result(claim, Delivered(), 1, 1), Sent())])
    await store.close()
    assert list(settled) == []
    assert [row["status"] for row in await message_rows(database)] == ["parked"]


async def test_it_is_never_retried_only_dismissed(database: Database):
    """409 with what to do."""
    [parked] = await given_parked(database)
    async with database.transaction() as session:
        await erase(session, parked)
        with pytest.raises(Conflict, match="nothing to send") as refused:
            await retry(session, parked)
        assert "dismiss" in refused.value.hint
        assert (await dismiss(session, parked, "erased")).status is Status.DISMISSED
        await erase(session, parked)  # twice changes nothing
        assert (await get_message(session, parked)).status is Status.DISMISSED


async def test_a_message_made_after_the_erasure_is_parked_too(database: Database):
    """A replay that had looked before asks again after its insert."""
    [parked] = await given_parked(database)
    async with database.transaction() as session:
        shown = await erase(session, parked)
        late = {"id": uuid7(), "event_id": shown.event_id, "destination": "test:late"}
        await session.execute(insert(outbox_messages).values(late))
        await park_erased(session, {shown.event_id})
        made = await get_message(session, late["id"])
    assert (made.status, made.parked_reason) == (Status.PARKED, "undeliverable")
