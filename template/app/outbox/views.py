"""Messages as people see them: the structs behind API, `--json` and pages, and their queries.

Invariant: every query carries the caller's tenant: None is an operator and sees all, a tenant
matches exactly, and what belongs to another looks as if it did not exist. Nothing here writes.
The JSON field names are the struct fields; change one and you change the API.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Row, Select, and_, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.errors import NotFound
from app.outbox.attempt_log import Attempt, attempt_log
from app.outbox.cursor import beyond, cursor_of, no_cursor, order_of_list, position_of
from app.outbox.event import check_text
from app.outbox.lines import why_it_waits
from app.outbox.message import ParkedReason, Status, endpoint_id_of, webhook_destination
from app.outbox.subscriptions import check_pattern
from app.outbox.tables import events, outbox_messages

m, e = outbox_messages.c, events.c
PAGE_LIMIT = 200


class Message(Struct, frozen=True, kw_only=True):
    """One event owed to one destination."""

    id: UUID
    event_id: UUID
    type: str
    tenant: str
    destination: str
    endpoint_id: UUID | None
    status: Status
    attempts: int
    available_at: datetime
    parked_reason: ParkedReason | None
    last_error: str | None
    created_at: datetime
    sent_at: datetime | None


class MessageDetail(Message, frozen=True, kw_only=True):
    """One message with everything known about it."""

    ordering_key: str | None
    sequence: int | None  # of that key and this destination
    waits_for: str | None  # why it is not sent though it is due
    attempt_log: list[Attempt]
    body: Any


class Page(Struct, frozen=True):
    """Some messages; `next_cursor` asks for the rest."""

    items: list[Message]
    next_cursor: str | None


class MessageFilter(Struct, frozen=True, kw_only=True):
    """Which messages; None leaves a field open. `type` may be a pattern such as `order.*`."""

    status: Status | None = None
    type: str | None = None
    endpoint_id: UUID | None = None
    tenant: str | None = None
    reason: ParkedReason | None = None


# Spelled like the predicates of the partial indexes, so that each status is found by its index.
STATUS_IS: dict[Status, ColumnElement[bool]] = {
    Status.PENDING: and_(m.sent_at.is_(None), m.parked_at.is_(None), m.claim_token.is_(None)),
    Status.CLAIMED: and_(m.sent_at.is_(None), m.parked_at.is_(None), m.claim_token.is_not(None)),
    Status.SENT: m.sent_at.is_not(None),
    Status.PARKED: and_(m.parked_at.is_not(None), m.dismissed_at.is_(None)),
    Status.DISMISSED: m.dismissed_at.is_not(None),
}


def joined(*columns: Any) -> Select[Any]:
    """The columns, from messages and their events."""
    return select(*columns).select_from(outbox_messages.join(events, e.id == m.event_id))


def conditions(wanted: MessageFilter) -> list[ColumnElement[bool]]:
    """The filter as SQL; raises `BadRequest` for a type or a tenant that can't be one."""
    found: list[ColumnElement[bool]] = []
    if wanted.status is not None:
        found.append(STATUS_IS[wanted.status])
    if wanted.type is not None and check_pattern(wanted.type) != "*":
        prefix = wanted.type.removesuffix("*")
        exact = prefix == wanted.type
        found.append(e.type == prefix if exact else e.type.startswith(prefix, autoescape=True))
    if wanted.endpoint_id is not None:
        found.append(m.destination == webhook_destination(wanted.endpoint_id))
    if wanted.tenant is not None:
        check_text("tenant", wanted.tenant, 128)
        found.append(e.tenant == wanted.tenant)
    if wanted.reason is not None:
        found.append(m.parked_reason == wanted.reason.value)
    return found


MESSAGE_COLUMNS = (
    m.id, m.event_id, e.type, e.tenant, m.destination, m.status, m.attempts, m.available_at,
    m.parked_reason, m.last_error, m.created_at, m.sent_at,
)  # fmt: skip


def _fields(row: Row[Any]) -> dict[str, Any]:
    reason = row.parked_reason
    return {
        name: getattr(row, name) for name in Message.__struct_fields__ if name in row._fields
    } | {
        "status": Status(row.status),
        "parked_reason": None if reason is None else ParkedReason(reason),
        "endpoint_id": endpoint_id_of(row.destination),
    }


def message_of(row: Row[Any]) -> Message:
    """A row of `MESSAGE_COLUMNS` as a message."""
    return Message(**_fields(row))


async def list_messages(
    session: AsyncSession, wanted: MessageFilter, limit: int = 50, cursor: str | None = None
) -> Page:
    """One page, newest first; of parked ones, the last parked first.

    A cursor that is not of such a list, or another tenant's, raises `NotFound`.
    """
    limit, status = max(1, min(limit, PAGE_LIMIT)), wanted.status
    descending = [column.desc() for column in order_of_list(status)]
    query = joined(*MESSAGE_COLUMNS, m.parked_at).where(*conditions(wanted)).order_by(*descending)
    if cursor is not None:
        position = position_of(cursor, status)
        await _check_owner(session, position[-1], cursor, wanted.tenant)
        query = query.where(beyond(position, status))
    rows = (await session.execute(query.limit(limit + 1))).all()
    items = [message_of(row) for row in rows[:limit]]
    return Page(items, cursor_of(rows[limit - 1], status) if len(rows) > limit else None)


async def _check_owner(
    session: AsyncSession, message_id: UUID, cursor: str, tenant: str | None
) -> None:
    owner = select(e.tenant).join(outbox_messages, e.id == m.event_id).where(m.id == message_id)
    found = (await session.execute(owner)).scalar_one_or_none()
    if tenant is not None and found not in (None, tenant):
        raise no_cursor(cursor)


async def get_message(
    session: AsyncSession, message_id: UUID, tenant: str | None = None
) -> MessageDetail:
    """One message with its attempts and body; raises `NotFound`."""
    query = joined(*MESSAGE_COLUMNS, e.body, e.ordering_key, m.sequence).where(m.id == message_id)
    row = (await session.execute(query)).one_or_none()
    if row is None or (tenant is not None and row.tenant != tenant):
        raise no_such_message(message_id)
    return MessageDetail(
        **_fields(row),
        ordering_key=row.ordering_key,
        sequence=row.sequence,
        waits_for=await why_it_waits(session, message_id, row.destination, row.status),
        body=_decoded(row.body),
        attempt_log=await attempt_log(session, message_id),
    )


def _decoded(body: bytes) -> Any:
    # publish stores nothing but JSON; what somebody changed by hand is shown all the same.
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")


def no_such_message(message_id: UUID) -> NotFound:
    """The one answer for a message that is not there and for one of another tenant."""
    return NotFound(f"there is no message {message_id}")
