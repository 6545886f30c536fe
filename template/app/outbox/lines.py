"""Lines of messages with the same ordering key, as people see them: who waits, and for whom.

Only reads. Who may go is decided in `statements_ordered.py`, with which this should agree.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct
from sqlalchemy import Row, Select, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import UtcDateTime
from app.outbox.endpoint_states import waits_for
from app.outbox.message import Ordering
from app.outbox.ordering import Order, order_of
from app.outbox.policy import in_words
from app.outbox.tables import ORDERED, outbox_messages

_LINES = text(f"""WITH line AS (
  SELECT destination, ordering_key, min(sequence) AS head,
    count(CASE WHEN parked_at IS NULL THEN 1 END) AS waiting
  FROM outbox_messages WHERE {ORDERED} GROUP BY destination, ordering_key)
SELECT count(CASE WHEN m.parked_at IS NOT NULL AND l.waiting > 0
    AND coalesce(o.policy, 'strict') = 'strict' THEN 1 END) AS blocked,
  min(CASE WHEN m.parked_at IS NULL THEN m.available_at END) AS first_due
FROM line l JOIN outbox_messages m ON m.destination = l.destination
  AND m.ordering_key = l.ordering_key AND m.sequence = l.head
  AND m.sent_at IS NULL AND m.dismissed_at IS NULL
LEFT JOIN orderings o ON o.destination = l.destination""").columns(first_due=UtcDateTime())  # noqa: S608

m, lower = outbox_messages.c, outbox_messages.alias("lower").c


class Lines(Struct, frozen=True):
    """`blocked`: keys whose first message is parked, while others wait for it until it is ended."""

    blocked: int
    first_due: datetime | None  # of all that are first in their line and not parked


async def lines(session: AsyncSession) -> Lines:
    """All of them; reads the whole ordered lane, nothing else."""
    row = (await session.execute(_LINES)).one()
    return Lines(row.blocked, row.first_due)


async def why_it_waits(
    session: AsyncSession, message_id: UUID, destination: str, status: str
) -> str | None:
    """In words, what a message that is not sent waits for: another one, or its endpoint."""
    order = (await order_of(session, [destination]))[destination]
    before = (await session.execute(_before(message_id, order))).first()
    if before is None:
        return await waits_for(session, destination, status)
    return _words(before, order)


def _before(message_id: UUID, order: Order) -> Select[Any]:
    query = select(lower.id, lower.sequence, lower.parked_at).where(
        m.id == message_id,
        lower.destination == m.destination, lower.ordering_key == m.ordering_key,
        lower.sequence < m.sequence, lower.sent_at.is_(None), lower.dismissed_at.is_(None),
    )  # fmt: skip
    if order.ordering is Ordering.SKIP:
        query = query.where(lower.parked_at.is_(None))
    return query.order_by(lower.sequence).limit(1)


def _words(before: Row[Any], order: Order) -> str:
    words = f"message {before.id}, {before.sequence} of the same ordering key"
    if order.ordering is Ordering.YIELD:
        return f"{words}, for {in_words(order.gap_seconds)} at most"
    return words if before.parked_at is None else f"{words}, which is parked: retry or dismiss it"
