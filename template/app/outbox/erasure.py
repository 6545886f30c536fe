"""Erasing a body on a person's demand.

    erase --one transaction--> tombstone in `events`, answers of receivers gone,
                               every message of the event not yet over: parked, undeliverable

Invariant: a tombstone is never sent. What is open is parked here; a claim that is out loses its
token; retry refuses; replay skips. Whoever makes a message of an old event calls `park_erased`
afterwards, because the event may have been erased since it looked. The caller audits.
"""

from collections.abc import Collection
from uuid import UUID

import msgspec
from sqlalchemy import func, null, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import db_now
from app.errors import Conflict
from app.outbox.message import ParkedReason
from app.outbox.tables import attempts, events, outbox_messages
from app.outbox.views import MessageDetail, get_message

ERASED = "the body of the event was erased: there is nothing to send"
m, e = outbox_messages.c, events.c


async def erase(
    session: AsyncSession, message_id: UUID, tenant: str | None = None
) -> MessageDetail:
    """Replace the body of the message's event, and what receivers answered to it, for ever.

    Messages of the event that are not over are parked as `undeliverable`. Raises `NotFound`.
    """
    event_id = (await get_message(session, message_id, tenant)).event_id
    # FOR UPDATE, not what an UPDATE takes: a new message's foreign key has to wait for it.
    locked = select(e.type, e.occurred_at).where(e.id == event_id).with_for_update()
    row = (await session.execute(locked)).one()
    tombstone = {"type": row.type, "timestamp": row.occurred_at, "data": None}
    await session.execute(
        update(events)
        .where(e.id == event_id)
        .values(body=msgspec.json.encode(tombstone), erased_at=func.coalesce(e.erased_at, db_now()))
    )
    answers = update(attempts).where(attempts.c.event_id == event_id)
    await session.execute(answers.values(response_head=None, response_body=None))
    await park_erased(session, {event_id})
    return await get_message(session, message_id, tenant)


async def park_erased(session: AsyncSession, event_ids: Collection[UUID]) -> None:
    """Park the open messages of those among the events whose body was erased."""
    gone = await erased_among(session, event_ids)
    if gone:
        await session.execute(
            update(outbox_messages)
            .where(m.event_id.in_(gone), m.sent_at.is_(None), m.dismissed_at.is_(None))
            .values(
                parked_at=func.coalesce(m.parked_at, db_now()),
                parked_reason=ParkedReason.UNDELIVERABLE.value,
                last_error=ERASED,
                claim_token=null(),
                claimed_at=null(),
                lease_until=null(),
            )
        )


async def erased_among(session: AsyncSession, event_ids: Collection[UUID]) -> set[UUID]:
    """Which of the events have no body any more. Ask after locking what depends on it."""
    query = select(e.id).where(e.id.in_(event_ids), e.erased_at.is_not(None))
    return set((await session.execute(query)).scalars())


async def refuse_erased(session: AsyncSession, event_id: UUID) -> None:
    """Raise `Conflict` when the event has no body any more."""
    if await erased_among(session, {event_id}):
        raise Conflict(f"it can't be retried: {ERASED}", hint="dismiss it")
