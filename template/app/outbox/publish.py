"""The caller's half of the outbox: an event and its messages, in the caller's transaction.

    async with database.transaction() as session:
        session.add(order)
        await publish(session, Event(type="order.created", data=...))

Invariant: publish writes through the session and never commits, so the business row, the event and
every message it owes are stored together or not at all. Destinations come from `subscriptions` and
from the handlers that the transaction carries, which are known from code; whether an endpoint is
enabled is looked at when the message is claimed, not here. Registered types are checked against the
catalogue that the transaction carries. The messages of an event with an ordering key are stored
immediately before COMMIT, with their sequence: see `sequences.py`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import sqlite_text
from app.db.engine import DESTINATIONS, IN_TRANSACTION
from app.errors import AppError, BadRequest, TooLarge
from app.ids import uuid7
from app.outbox.catalogue import Catalogue
from app.outbox.event import BODY_LIMIT_BYTES, Event, Published, encode_body, utc_time
from app.outbox.sequences import Owed, owe
from app.outbox.statements_publish import (
    MATCHED_SQLITE,
    MESSAGES_SQLITE,
    PUBLISH_KEYED_POSTGRESQL,
    PUBLISH_POSTGRESQL,
)
from app.outbox.subscriptions import candidates
from app.outbox.tables import events

# Keys of `session.info`; set by wiring for every transaction.
CATALOGUE = "app.catalogue"
HANDLERS = "app.handlers"  # the destinations of each pattern that handlers are registered for

Handlers = Mapping[str, tuple[str, ...]]

__all__ = [
    "CATALOGUE", "HANDLERS", "Event", "OutsideTransaction", "Published", "publish", "publish_all",
]  # fmt: skip


class OutsideTransaction(AppError):
    """publish was called with a session that `Database.transaction()` did not open."""


class _Row(Struct, frozen=True):
    id: UUID
    type: str
    tenant: str
    body: bytes
    ordering_key: str | None
    traceparent: str | None
    occurred_at: datetime
    available_at: datetime | None
    patterns: str  # separated by spaces, which no pattern contains
    handlers: str  # destinations, separated by spaces too


async def publish(
    session: AsyncSession, event: Event, limit_bytes: int = BODY_LIMIT_BYTES
) -> Published:
    """Store one event and a message for each subscribed destination. Never commits.

    Raises `BadRequest` or `TooLarge` for an event that can't be sent, `OutsideTransaction` for a
    session that nobody would commit.
    """
    return (await publish_all(session, [event], limit_bytes))[0]


async def publish_all(
    session: AsyncSession, batch: Sequence[Event], limit_bytes: int = BODY_LIMIT_BYTES
) -> list[Published]:
    """Store many events at once; all of them or none. Never commits."""
    if not session.info.get(IN_TRANSACTION) or not session.in_transaction():
        raise OutsideTransaction(
            "publish was called outside Database.transaction(), where nothing would commit it",
            hint="call it inside: async with database.transaction() as session",
        )
    if not batch:
        return []
    handlers: Handlers = session.info.get(HANDLERS, {})
    rows = _rows(batch, session.info.get(CATALOGUE, Catalogue()), handlers, limit_bytes)
    owed: list[tuple[UUID, str]] = []
    for keyed in (False, True):
        some = [row for row in rows if (row.ordering_key is not None) is keyed]
        if some:
            owed += await _store(session, some, keyed=keyed)
    session.info.setdefault(DESTINATIONS, set()).update(destination for _, destination in owed)
    counts = Counter(event_id for event_id, _ in owed)
    return [Published(row.id, counts[row.id]) for row in rows]


def _rows(
    batch: Sequence[Event], catalogue: Catalogue, handlers: Handlers, limit: int
) -> list[_Row]:
    rows = []
    for index, event in enumerate(batch):
        try:
            rows.append(_row(event, handlers, limit))
            catalogue.check(event.type, event.data)
        except (BadRequest, TooLarge) as error:
            where = f"events[{index}]." if len(batch) > 1 else ""
            raise type(error)(f"{where}{error.message}", hint=error.hint) from None
    return rows


def _row(event: Event, handlers: Handlers, limit: int) -> _Row:
    # The time is part of the signed bytes, so it can't come from the database's clock here;
    # `created_at` does.
    occurred_at = utc_time("occurred_at", event.occurred_at) or datetime.now(UTC)
    body = encode_body(event, occurred_at, limit)
    patterns = candidates(event.type)
    return _Row(
        id=uuid7(),
        type=event.type,
        tenant=event.tenant,
        body=body,
        ordering_key=event.ordering_key,
        traceparent=event.traceparent,
        occurred_at=occurred_at,
        available_at=event.available_at,
        patterns=" ".join(patterns),
        handlers=" ".join(name for pattern in patterns for name in handlers.get(pattern, ())),
    )


async def _store(session: AsyncSession, rows: list[_Row], *, keyed: bool) -> list[tuple[UUID, str]]:
    """Store the events, and their messages now or before COMMIT; (event, destination) of each."""
    postgresql = session.get_bind().dialect.name == "postgresql"
    found = await (_store_postgresql if postgresql else _store_sqlite)(session, rows, keyed)
    if keyed:
        positions = {row.id: position for position, row in enumerate(rows)}
        found.sort(key=lambda pair: positions[pair[0]])
        due = {row.id: row.available_at for row in rows}
        owe(session, [Owed(event_id, name, due[event_id]) for event_id, name in found])
    return found


async def _store_postgresql(
    session: AsyncSession, rows: list[_Row], keyed: bool
) -> list[tuple[UUID, str]]:
    columns = {name: [getattr(row, name) for row in rows] for name in _Row.__struct_fields__}
    statement = PUBLISH_KEYED_POSTGRESQL if keyed else PUBLISH_POSTGRESQL
    result = await session.execute(statement, columns)
    return [(event_id, destination) for event_id, destination in result]


async def _store_sqlite(
    session: AsyncSession, rows: list[_Row], keyed: bool
) -> list[tuple[UUID, str]]:
    stored: list[dict[str, Any]] = [msgspec.structs.asdict(row) for row in rows]
    for values in stored:
        del values["patterns"], values["handlers"], values["available_at"]
    await session.execute(insert(events), stored)
    owing = [
        {
            "event_id": row.id.hex,
            "tenant": row.tenant,
            "patterns": row.patterns.split(),
            "handlers": row.handlers.split(),
            "available_at": sqlite_text(row.available_at) if row.available_at else None,
        }
        for row in rows
    ]
    statement = MATCHED_SQLITE if keyed else MESSAGES_SQLITE
    found = await session.execute(statement, {"owing": msgspec.json.encode(owing).decode()})
    return [(UUID(row.event_id), row.destination) for row in found]
