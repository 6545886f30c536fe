"""What the page needs beside `outbox/messages.py`: endpoints, times, counts. Reads only.

Invariant: each query is bounded, whatever the number of parked messages: the page must open in the
very incident that parked a million of them.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from urllib.parse import urlsplit
from uuid import UUID

from msgspec import Struct
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import db_now
from app.outbox.tables import PARKED, events, outbox_messages
from app.webhooks.tables import endpoints

COUNTED = 10_000  # the newest parked messages; what is older is not in the counts


class EndpointInfo(Struct, frozen=True):
    """The endpoint that a message goes to."""

    id: UUID
    url: str  # without query and credentials: those may be secrets
    status: str
    disabled_reason: str | None


class Group(Struct, frozen=True):
    """How many of the newest parked messages have this destination, type and reason."""

    destination: str
    type: str
    reason: str
    count: int


async def database_now(session: AsyncSession) -> datetime:
    """The clock that all stored times come from; ages are measured against it."""
    now: datetime | None = await session.scalar(select(db_now()))
    assert now is not None
    return now


async def endpoint_infos(
    session: AsyncSession, ids: Collection[UUID]
) -> Mapping[UUID, EndpointInfo]:
    """Endpoints by id, deleted ones too."""
    c = endpoints.c
    rows = await session.execute(
        select(c.id, c.url, c.status, c.disabled_reason).where(c.id.in_(ids))
    )
    return {
        row.id: EndpointInfo(row.id, _shown_url(row.url), row.status, row.disabled_reason)
        for row in rows
    }


async def parked_times(session: AsyncSession, ids: Collection[UUID]) -> Mapping[UUID, datetime]:
    """When each of these messages was parked; those that are not parked are missing."""
    c = outbox_messages.c
    rows = await session.execute(
        select(c.id, c.parked_at).where(c.id.in_(ids), c.parked_at.is_not(None))
    )
    return {row.id: row.parked_at for row in rows}


async def event_body(session: AsyncSession, event_id: UUID) -> str:
    """The body as it is stored and sent, not decoded and encoded again."""
    body = await session.scalar(select(events.c.body).where(events.c.id == event_id))
    return (body or b"").decode("utf-8", "replace")


async def parked_groups(session: AsyncSession) -> list[Group]:
    """The newest parked messages counted, the largest group first."""
    c = outbox_messages.c
    newest = (
        select(c.destination, c.event_id, c.parked_reason)
        .where(text(PARKED))
        .order_by(c.parked_at.desc(), c.id.desc())
        .limit(COUNTED)
        .subquery()
    )
    grouped = (newest.c.destination, events.c.type, newest.c.parked_reason)
    count = func.count().label("how_many")
    rows = await session.execute(
        select(*grouped, count)
        .join(events, events.c.id == newest.c.event_id)
        .group_by(*grouped)
        .order_by(count.desc(), *grouped)
    )
    return [Group(row.destination, row.type, row.parked_reason, row.how_many) for row in rows]


def _shown_url(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" + ("?…" if parts.query else "")
