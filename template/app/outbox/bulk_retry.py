"""Retrying many parked messages at once: by filter, in small transactions, at a pace.

Invariants: each batch commits by itself together with its audit entry, so a run that was cut off
has done and recorded what it has done; the same command again goes on, because what was retried is
not parked any more. What is parked while it runs is not taken: it would go round for ever. Rows
that somebody else holds are left (`SKIP LOCKED`), and so are those of endpoints that are not
enabled and those whose body was erased.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import Row, Select, bindparam, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import UtcDateTime, db_now
from app.db.engine import DESTINATIONS, Database
from app.errors import BadRequest
from app.outbox.endpoint_states import ENABLED, endpoint_states
from app.outbox.erasure import erased_among
from app.outbox.message import Status
from app.outbox.messages import retried
from app.outbox.replay_scan import check_pace
from app.outbox.tables import outbox_messages
from app.outbox.views import MessageFilter, conditions, joined, m

BATCH = 500

Record = Callable[[AsyncSession, int], Awaitable[None]]


class RetryReport(Struct, frozen=True):
    """How many matched; the rest of them are of closed endpoints, or have no body any more."""

    matched: int
    retried: int


class _Pace:
    """When the next message is due: now, or one after the other."""

    def __init__(self, start: datetime, per_second: float | None) -> None:
        self._next, self._per_second = start, per_second

    def due(self, now: datetime) -> datetime:
        self._next = max(self._next, now)
        due = self._next
        if self._per_second is not None:
            self._next += timedelta(seconds=1 / self._per_second)
        return due


async def retry_all(
    database: Database,
    wanted: MessageFilter,
    record: Record,
    *,
    per_second: float | None = None,
    dry_run: bool = False,
) -> RetryReport:
    """Retry every parked message that matches; `record` audits each batch in its transaction.

    With `per_second` they become due one after the other, not all at once.
    """
    _check(wanted, per_second)
    async with database.read() as session:
        start: datetime = (await session.execute(select(db_now()))).scalar_one()
    query = _query(msgspec.structs.replace(wanted, status=Status.PARKED), start)
    pace = _Pace(start, per_second)
    matched = count = 0
    last: Row[Any] | None = None
    while True:
        async with database.read() if dry_run else database.transaction() as session:
            rows = (await session.execute(_after(query, last, lock=not dry_run))).all()
            matched += len(rows)
            if not dry_run:
                count += await _retry(session, rows, pace, record)
        if len(rows) < BATCH:
            return RetryReport(matched, count)
        last = rows[-1]


def _check(wanted: MessageFilter, per_second: float | None) -> None:
    if wanted.status not in (None, Status.PARKED):
        raise BadRequest(f"status: {wanted.status.value!r}; only parked messages can be retried")
    if per_second is not None:
        check_pace(per_second)


def _query(wanted: MessageFilter, start: datetime) -> Select[Any]:
    # In the order of the index of parked messages.
    return (
        joined(m.id, m.event_id, m.destination, m.parked_at)
        .where(*conditions(wanted), m.parked_at <= start)
        .order_by(m.parked_at, m.id)
        .limit(BATCH)
    )


def _after(query: Select[Any], last: Row[Any] | None, *, lock: bool) -> Select[Any]:
    if last is not None:
        position = tuple_(last.parked_at, last.id, types=[UtcDateTime(), m.id.type])
        query = query.where(tuple_(m.parked_at, m.id) > position)
    return query.with_for_update(of=outbox_messages, skip_locked=True) if lock else query


async def _retry(
    session: AsyncSession, rows: Sequence[Row[Any]], pace: _Pace, record: Record
) -> int:
    states = await endpoint_states(session, {row.destination for row in rows})
    erased = await erased_among(session, {row.event_id for row in rows})
    chosen = [r for r in rows if states[r.destination] == ENABLED and r.event_id not in erased]
    if not chosen:
        return 0
    now: datetime = (await session.execute(select(db_now()))).scalar_one()
    due: list[dict[str, UUID | datetime]] = [
        {"message": row.id, "due": pace.due(now)} for row in chosen
    ]
    statement = retried(bindparam("due", type_=UtcDateTime()))
    await session.execute(statement.where(m.id == bindparam("message")), due)
    await record(session, len(chosen))
    session.info.setdefault(DESTINATIONS, set()).update(row.destination for row in chosen)
    return len(chosen)
