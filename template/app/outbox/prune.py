"""Retention: deletes what is past its time, in small committed batches, in key order.

Invariants: a parked message is never deleted, nor one that is still owed; an event stays as long
as a message refers to it. Ids are UUIDv7, so the primary key itself leads to the old rows and no
index on a time is needed. Where to change what: the periods are settings `APP_PRUNE_*`.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Table,
    column,
    delete,
    exists,
    or_,
    select,
    table,
    tuple_,
)
from sqlalchemy.sql.expression import TableClause

from app.config import Settings
from app.db.dialect import Id, UtcDateTime, db_now
from app.db.engine import Database
from app.outbox.tables import attempts, events, inbox_messages, outbox_messages

BATCH = 1000

# Tables of `app.api`, which stands above the outbox and can't be imported here.
_keys = table(
    "idempotency_keys", column("tenant"), column("api_key_id", Id), column("route"), column("key"),
    column("created_at", UtcDateTime()),
)  # fmt: skip
_audit = table("audit_log", column("id", Id), column("at", UtcDateTime()))


class PruneReport(Struct, frozen=True):
    """How many rows of each table were deleted."""

    messages: int
    events: int
    attempts: int
    idempotency_keys: int
    inbox_messages: int
    audit_entries: int

    def as_fields(self) -> dict[str, int]:
        """For a log line."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


async def prune(
    database: Database, settings: Settings, now: datetime | None = None, batch: int = BATCH
) -> PruneReport:
    """Delete everything past its retention. Each batch is a transaction of its own."""
    if now is None:
        async with database.read() as session:
            now = (await session.execute(select(db_now()))).scalar_one()
    ago = partial(_ago, now)
    sent, tried = ago(days=settings.prune_sent_days), ago(days=settings.prune_attempts_days)
    m, e, a, i, k = (t.c for t in (outbox_messages, events, attempts, inbox_messages, _keys))
    closed = or_(m.sent_at < sent, m.dismissed_at < sent)
    owed = exists().where(m.event_id == e.id)
    kept = exists().where(m.id == a.message_id)
    audited = first_id(ago(days=settings.prune_audit_days))
    received = i.received_at < ago(days=settings.prune_inbox_days)
    used = k.created_at < ago(hours=settings.prune_idempotency_hours)
    old_attempts = a.message_id < first_id(tried), a.started_at < tried, ~kept

    async def rows(source: TableClause, key: Sequence[Any], *past: ColumnElement[bool]) -> int:
        return await _in_batches(database, source, key, past, batch)

    return PruneReport(
        messages=await rows(outbox_messages, [m.id], m.id < first_id(sent), closed),
        events=await rows(events, [e.id], e.id < first_id(sent), ~owed),
        attempts=await rows(attempts, [a.message_id, a.number], *old_attempts),
        idempotency_keys=await rows(_keys, [k.tenant, k.api_key_id, k.route, k.key], used),
        inbox_messages=await rows(inbox_messages, [i.source, i.webhook_id], received),
        audit_entries=await rows(_audit, [_audit.c.id], _audit.c.id < audited),
    )


def _ago(now: datetime, **period: int) -> datetime:
    return now - timedelta(**period)


def first_id(moment: datetime) -> UUID:
    """The lowest UUIDv7 that can have been made at that moment or later."""
    milliseconds = int(moment.astimezone(UTC).timestamp() * 1000)
    return UUID(int=max(0, milliseconds) << 80)


async def _in_batches(
    database: Database,
    source: TableClause | Table,
    key: Sequence[Any],
    past: Sequence[ColumnElement[bool]],
    batch: int,
) -> int:
    deleted, last = 0, None
    while True:
        query = select(*key).where(*past).order_by(*key).limit(batch)
        if last is not None:  # step over what stays
            query = query.where(tuple_(*key) > tuple_(*last))
        async with database.transaction() as session:
            # SKIP LOCKED: relays prune at the same time and must not wait for each other.
            found = (await session.execute(query.with_for_update(skip_locked=True))).all()
            if found:
                chosen = [tuple(row) for row in found]
                await session.execute(delete(source).where(tuple_(*key).in_(chosen)))
        deleted += len(found)
        if len(found) < batch:
            return deleted
        last = found[-1]
        await asyncio.sleep(0)
