"""A person's half of the outbox: look at messages, retry or dismiss a parked one, erase a body.

Invariant: parked is final until a person acts, and only a parked message can be retried or
dismissed. A retry keeps the message's id and its attempt numbers and starts the ladder anew.
Callers write the audit entry in the same transaction. Looking is in `views.py`.
"""

from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import column, func, null, select, table, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.dml import Update

from app.db.dialect import Id, db_now
from app.db.engine import DESTINATIONS
from app.errors import BadRequest, Conflict
from app.outbox.event import check_text
from app.outbox.message import Status, endpoint_id_of
from app.outbox.tables import attempts, events, outbox_messages
from app.outbox.views import (
    MESSAGE_COLUMNS,
    STATUS_IS,
    Attempt,
    Message,
    MessageDetail,
    MessageFilter,
    Page,
    conditions,
    e,
    get_message,
    joined,
    list_messages,
    m,
    message_of,
    no_such_message,
)
from app.program import program

__all__ = [
    "Attempt", "Message", "MessageDetail", "MessageFilter", "Page", "RetryReport", "Stats",
    "dismiss", "erase", "get_message", "list_messages", "retry", "retry_all", "stats",
]  # fmt: skip

REASON_LENGTH = 500

# The one look over the fence: a webhook destination is retried only while its endpoint is enabled.
# `app.webhooks` may not be imported here, it stands above the outbox.
_endpoints = table("endpoints", column("id", Id), column("status"))


class RetryReport(Struct, frozen=True):
    """How many matched; the rest of them belong to endpoints that are disabled or deleted."""

    matched: int
    retried: int


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
    states = await _endpoint_states(session, [message.destination])
    state = states.get(message.destination)
    if state is not None and state != "enabled":
        raise Conflict(
            f"message {message_id} can't be retried: its endpoint is {state}",
            hint=f"run: {program()} endpoints enable {message.endpoint_id}"
            if state == "disabled"
            else "dismiss it",
        )
    await session.execute(_retry().where(m.id == message_id))
    _wake(session, [message.destination])
    return await _read(session, message_id)


async def retry_all(
    session: AsyncSession, wanted: MessageFilter, dry_run: bool = False
) -> RetryReport:
    """Retry every parked message that matches, except where the endpoint is not enabled."""
    if wanted.status not in (None, Status.PARKED):
        raise BadRequest(f"status: {wanted.status.value!r}; only parked messages can be retried")
    matching = conditions(msgspec.structs.replace(wanted, status=Status.PARKED))
    counted = joined(m.destination, func.count()).where(*matching).group_by(m.destination)
    counts = {row[0]: row[1] for row in await session.execute(counted)}
    matched = sum(counts.values())
    states = await _endpoint_states(session, list(counts))
    open_ones = [d for d in counts if states.get(d, "enabled") == "enabled"]
    if dry_run or not open_ones:
        return RetryReport(matched, 0)
    chosen = joined(m.id).where(*matching, m.destination.in_(open_ones))
    written = await session.execute(_retry().where(m.id.in_(chosen)).returning(m.id))
    _wake(session, open_ones)
    return RetryReport(matched, len(written.all()))


async def dismiss(
    session: AsyncSession, message_id: UUID, reason: str, tenant: str | None = None
) -> Message:
    """Close a parked message without delivering it. The caller audits `reason`."""
    check_text("reason", reason, REASON_LENGTH)
    if not reason.strip():
        raise BadRequest("reason: it is empty; say why the message need not be delivered")
    await _parked(session, message_id, tenant, "dismissed")
    await session.execute(
        update(outbox_messages).where(m.id == message_id).values(dismissed_at=db_now())
    )
    return await _read(session, message_id)


async def erase(session: AsyncSession, message_id: UUID, tenant: str | None = None) -> None:
    """Replace the body of the message's event, and what receivers answered, for ever.

    Refused while a message of the event could still be delivered: it would deliver nothing.
    """
    event_id = (await get_message(session, message_id, tenant)).event_id
    sharing = select(m.id, m.status).where(m.event_id == event_id).with_for_update()
    for other_id, status in (await session.execute(sharing)).all():
        if status not in (Status.SENT, Status.DISMISSED):
            raise Conflict(
                f"message {other_id} of the same event is {status}: erasing would deliver nothing",
                hint="wait until it is sent, or dismiss it once it is parked",
            )
    row = (await session.execute(select(e.type, e.occurred_at).where(e.id == event_id))).one()
    tombstone = {"type": row.type, "timestamp": row.occurred_at, "data": None}
    await session.execute(
        update(events).where(e.id == event_id).values(body=msgspec.json.encode(tombstone))
    )
    answers = update(attempts).where(attempts.c.event_id == event_id)
    await session.execute(answers.values(response_head=None, response_body=None))


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


def _retry() -> Update:
    return update(outbox_messages).values(
        parked_at=null(), parked_reason=null(), claim_token=null(), claimed_at=null(),
        lease_until=null(), losses=0, lone_losses=0, ladder_start=m.attempts,
        ladder_started_at=db_now(), available_at=db_now(),
    ).where(STATUS_IS[Status.PARKED])  # fmt: skip


async def _endpoint_states(session: AsyncSession, destinations: list[str]) -> dict[str, str]:
    ids = {d: endpoint_id_of(d) for d in destinations}
    wanted = [endpoint_id for endpoint_id in ids.values() if endpoint_id is not None]
    columns = _endpoints.c
    found = await session.execute(select(columns.id, columns.status).where(columns.id.in_(wanted)))
    states = {row.id: row.status for row in found}
    return {d: states.get(i, "deleted") for d, i in ids.items() if i is not None}


def _wake(session: AsyncSession, destinations: list[str]) -> None:
    session.info.setdefault(DESTINATIONS, set()).update(destinations)
