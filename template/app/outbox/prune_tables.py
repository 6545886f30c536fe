"""What is past its retention, table by table; pure, nothing here touches the database.

The order matters: messages go first, then the events that no message refers to any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Table, column, exists, or_, table
from sqlalchemy.sql.expression import TableClause

from app.config import Settings
from app.db.dialect import Id, UtcDateTime
from app.outbox.tables import attempts, events, inbox_messages, outbox_messages, replays

# Tables of `app.api`, which stands above the outbox and can't be imported here.
_keys = table(
    "idempotency_keys", column("tenant"), column("api_key_id", Id), column("route"), column("key"),
    column("created_at", UtcDateTime()),
)  # fmt: skip
_audit = table("audit_log", column("id", Id), column("at", UtcDateTime()))


@dataclass(frozen=True, slots=True)
class Past:
    """The rows of one table that may go, and the key by which they are walked."""

    name: str
    source: TableClause | Table
    key: Sequence[Any]
    rows: Sequence[ColumnElement[bool]]


def past_retention(settings: Settings, now: datetime) -> list[Past]:
    """Every table that retention looks after, in the order in which it does."""
    sent = now - timedelta(days=settings.prune_sent_days)
    used = now - timedelta(hours=settings.prune_idempotency_hours)
    received = now - timedelta(days=settings.prune_inbox_days)
    audited = now - timedelta(days=settings.prune_audit_days)
    m, i, r = outbox_messages.c, inbox_messages.c, replays.c
    got, over = i.received_at < received, r.finished_at < audited
    key_of_keys = [_keys.c.tenant, _keys.c.api_key_id, _keys.c.route, _keys.c.key]
    closed = or_(m.sent_at < sent, m.dismissed_at < sent)
    return [
        Past("messages", outbox_messages, [m.id], [m.id < first_id(sent), closed]),
        _events(sent),
        _attempts(now - timedelta(days=settings.prune_attempts_days)),
        Past("idempotency_keys", _keys, key_of_keys, [_keys.c.created_at < used]),
        Past("inbox_messages", inbox_messages, [i.source, i.webhook_id], [got]),
        Past("audit_entries", _audit, [_audit.c.id], [_audit.c.id < first_id(audited)]),
        Past("replays", replays, [r.id], [over]),
    ]


def _events(sent: datetime) -> Past:
    e = events.c
    owed = exists().where(outbox_messages.c.event_id == e.id)
    return Past("events", events, [e.id], [e.id < first_id(sent), ~owed])


def _attempts(tried: datetime) -> Past:
    a = attempts.c
    kept = exists().where(outbox_messages.c.id == a.message_id)
    past = [a.message_id < first_id(tried), a.started_at < tried, ~kept]
    return Past("attempts", attempts, [a.message_id, a.number], past)


def first_id(moment: datetime) -> UUID:
    """The lowest UUIDv7 that can have been made at that moment or later."""
    milliseconds = int(moment.astimezone(UTC).timestamp() * 1000)
    return UUID(int=max(0, milliseconds) << 80)
