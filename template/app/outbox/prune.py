"""Retention: deletes what is past its time, in small committed batches, in key order.

Invariants: a parked message is never deleted, nor one that is still owed; an event stays as long
as a message refers to it. Ids are UUIDv7, so the primary key itself leads to the old rows and no
index on a time is needed. Pruning never takes the database for itself: a batch that is slow is
halved, after each it rests as long as that took, and when its time is over the next run goes on.
Where to change what: the periods are settings `APP_PRUNE_*`, the tables are `prune_tables.py`'s.
"""

import asyncio
import time
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import delete, select, tuple_

from app.config import Settings
from app.db.dialect import db_now
from app.db.engine import Database
from app.outbox.driver import go_by_indexes
from app.outbox.prune_tables import Past, first_id, past_retention

__all__ = ["PruneReport", "first_id", "prune"]

BATCH = 500
SMALLEST_BATCH = 50
SLOW_SECONDS = 0.5
LONGEST_REST_SECONDS = 2.0


class PruneReport(Struct, frozen=True):
    """How many rows of each table were deleted; `finished`: nothing that may go is left."""

    messages: int
    events: int
    attempts: int
    idempotency_keys: int
    inbox_messages: int
    audit_entries: int
    replays: int
    finished: bool

    def as_fields(self) -> dict[str, int]:
        """The counts, for a log line and for metrics."""
        return {n: getattr(self, n) for n in self.__struct_fields__ if n != "finished"}


async def prune(
    database: Database,
    settings: Settings,
    now: datetime | None = None,
    batch: int = BATCH,
    seconds: float | None = None,
) -> PruneReport:
    """Delete everything past its retention, or as much as fits into `seconds`.

    Each batch is a transaction of its own. A table gets at most half of the time that is left, so
    that a large backlog in one does not keep the others waiting.
    """
    if now is None:
        async with database.read() as session:
            now = (await session.execute(select(db_now()))).scalar_one()
    end = None if seconds is None else time.monotonic() + seconds
    counts, finished = {}, True
    for past in past_retention(settings, now):
        share = None if end is None else (end + time.monotonic()) / 2
        counts[past.name], done = await _in_batches(database, past, batch, share)
        finished = finished and done
    return PruneReport(**counts, finished=finished)


async def _in_batches(
    database: Database, past: Past, batch: int, end: float | None
) -> tuple[int, bool]:
    """How many rows went, and whether those were all."""
    deleted, size, last = 0, batch, None
    while True:
        began = time.monotonic()
        found = await _delete(database, past, size, last)
        took = time.monotonic() - began
        deleted += len(found)
        if len(found) < size:
            return deleted, True
        if end is not None and time.monotonic() + took >= end:
            return deleted, False
        last = found[-1]
        size = max(size // 2, min(batch, SMALLEST_BATCH)) if took > SLOW_SECONDS else size
        await asyncio.sleep(min(took, LONGEST_REST_SECONDS))


async def _delete(database: Database, past: Past, size: int, last: Any) -> list[Any]:
    query = select(*past.key).where(*past.rows).order_by(*past.key).limit(size)
    if last is not None:  # step over what stays
        query = query.where(tuple_(*past.key) > tuple_(*last))
    # SKIP LOCKED: relays prune at the same time and must not wait for each other.
    picked = select(query.with_for_update(skip_locked=True).cte("picked"))
    gone = delete(past.source).where(tuple_(*past.key).in_(picked)).returning(*past.key)
    async with database.transaction() as session:
        if not database.is_sqlite:
            await go_by_indexes(session)
        return sorted(map(tuple, (await session.execute(gone)).all()))
