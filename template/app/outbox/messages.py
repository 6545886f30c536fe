"""A person's half of the outbox: look at messages, retry or dismiss a parked one.

Invariant: parked is final until a person acts, and only a parked message can be retried or
dismissed. A retry keeps the message's id and its attempt numbers and starts the ladder anew.
Callers write the audit entry in the same transaction. Looking is in `views.py`, many retries at
once are in `bulk_retry.py`, erasing is in `erasure.py`.
"""

from datetime import datetime
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ColumnElement, func, null, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.dml import Update

from app.db.dialect import db_now
from app.db.engine import DESTINATIONS
from app.errors import BadRequest, Conflict
from app.outbox.attempt_log import Attempt
from app.outbox.endpoint_states import ENABLED, endpoint_states
from app.outbox.erasure import refuse_erased
from app.outbox.event import check_text
from app.outbox.message import Status
from app.outbox.tables import outbox_messages
from app.outbox.views import (
    MESSAGE_COLUMNS,
    STATUS_IS,
    Message,
    MessageDetail,
    MessageFilter,
    Page,
    conditions,
    get_message,
    joined,
    list_messages,
    m,
    message_of,
    no_such_message,
)
from app.program import program

__all__ = [
    "Attempt", "Message", "MessageDetail", "MessageFilter", "Page", "Stats",
    "dismiss", "get_message", "list_messages", "retry", "stats",
]  # fmt: skip

REASON_LENGTH = 500


class Stats(Struct, frozen=True):
    """Messages by status, and the age of the oldest one still owed."""

    pending: int
    claimed: int
    sent: int
    parked: int
    dismissed: int
    oldest_pending_seconds: float | None


async def stats(session: AsyncSession, tenant: str | None = None) -> Stats:
    """Counts for one tenant, or for all."""
    scope = conditions(MessageFilter(tenant=tenant))
    query = (joined if scope else select)(m.status, func.count(), func.min(m.created_at))
    rows = (await session.execute(query.where(*scope).group_by(m.status))).all()
    counts = {status: count for status, count, _ in rows}
    now = (await session.execute(select(db_now()))).scalar_one()
    owed = [first for status, _, first in rows if status in (Status.PENDING, Status.CLAIMED)]
    age = max(0.0, (now - min(owed)).total_seconds()) if owed else None
    return Stats(**{s.value: counts.get(s.value, 0) for s in Status}, oldest_pending_seconds=age)


async def retry(session: AsyncSession, message_id: UUID, tenant: str | None = None) -> Message:
    """A parked message goes out again: same id, numbering goes on, the ladder starts anew.

    Raises `NotFound`, or `Conflict` when it is not parked or its endpoint is not enabled.
    """
    message = await _parked(session, message_id, tenant, "retried")
    await refuse_erased(session, message.event_id)
    state = (await endpoint_states(session, [message.destination]))[message.destination]
    if state != ENABLED:
        raise Conflict(
            f"message {message_id} can't be retried: its endpoint is {state}",
            hint=f"run: {program()} endpoints enable {message.endpoint_id}"
            if state == "disabled"
            else "dismiss it",
        )
    await session.execute(retried(db_now()).where(m.id == message_id))
    _wake(session, [message.destination])
    return await _read(session, message_id)


async def dismiss(
    session: AsyncSession, message_id: UUID, reason: str, tenant: str | None = None
) -> Message:
    """Close a parked message without delivering it. The caller audits `reason`."""
    check_text("reason", reason, REASON_LENGTH)
    if not reason.strip():
        raise BadRequest("reason: it is empty; say why the message need not be delivered")
    message = await _parked(session, message_id, tenant, "dismissed")
    await session.execute(
        update(outbox_messages).where(m.id == message_id).values(dismissed_at=db_now())
    )
    _wake(session, [message.destination])  # it may have held up others
    return await _read(session, message_id)


async def _parked(
    session: AsyncSession, message_id: UUID, tenant: str | None, done: str
) -> Message:
    query = joined(*MESSAGE_COLUMNS).where(m.id == message_id)
    row = (await session.execute(query.with_for_update(of=outbox_messages))).one_or_none()
    if row is None or (tenant is not None and row.tenant != tenant):
        raise no_such_message(message_id)
    if row.status != Status.PARKED:
        raise Conflict(f"message {message_id} is {row.status}; only a parked one can be {done}")
    return message_of(row)


async def _read(session: AsyncSession, message_id: UUID) -> Message:
    query = joined(*MESSAGE_COLUMNS).where(m.id == message_id)
    return message_of((await session.execute(query)).one())


def retried(due: ColumnElement[datetime]) -> Update:
    """What a retry writes to a parked row; the ladder starts when it is due."""
    return update(outbox_messages).values(
        parked_at=null(), parked_reason=null(), claim_token=null(), claimed_at=null(),
        lease_until=null(), holds_up_since=null(), losses=0, lone_losses=0, ladder_start=m.attempts,
        ladder_started_at=due, available_at=due,
    ).where(STATUS_IS[Status.PARKED])  # fmt: skip


def _wake(session: AsyncSession, destinations: list[str]) -> None:
    session.info.setdefault(DESTINATIONS, set()).update(destinations)
