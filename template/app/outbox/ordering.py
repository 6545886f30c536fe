"""Which destinations deliver in order, and under which policy.

A message with an ordering key waits for every lower sequence of its (destination, key). What is
sent or dismissed never holds up anything. What is parked, or has failed and is to be tried again:

    strict   holds up its key until a person retries or dismisses it
    yield    holds up each later message for `gap_seconds` at most
    skip     holds up nothing once it is parked; until then everything

Invariant: changing the policy loses nothing and turns nothing round: what is still owed moves into
the ordered lane (`ordering_key` set, see `tables.py`) or out of it, in the transaction of the
change, while no publisher of that destination is between its count and its COMMIT.
"""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import delete, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import DESTINATIONS
from app.outbox.message import Ordering
from app.outbox.statements_sequences import LOCK_ALONE
from app.outbox.tables import DUE, ORDERED, PARKED, SUSPECT, ordering_keys, orderings

GAP_SECONDS = 60.0

_MOVE = """UPDATE outbox_messages SET ordering_key = {key} WHERE id IN (
  SELECT id FROM outbox_messages WHERE id IN ({found})
    AND sent_at IS NULL AND dismissed_at IS NULL AND sequence IS NOT NULL ORDER BY id {lock})"""
_FIND = "SELECT id FROM outbox_messages WHERE destination = :destination AND {lane}"
_KEY = "(SELECT e.ordering_key FROM events e WHERE e.id = outbox_messages.event_id)"
_ALL = " UNION ALL ".join(_FIND.format(lane=lane) for lane in (DUE, SUSPECT, PARKED))


class Order(Struct, frozen=True):
    """The policy of one destination."""

    ordering: Ordering = Ordering.NONE
    gap_seconds: float = GAP_SECONDS


async def order_of(session: AsyncSession, destinations: Sequence[str]) -> dict[str, Order]:
    """The policy of each destination."""
    o = orderings.c
    rows = await session.execute(select(orderings).where(o.destination.in_(destinations)))
    found = {row.destination: Order(Ordering(row.policy), row.gap_seconds) for row in rows}
    return {destination: found.get(destination, Order()) for destination in destinations}


async def set_order(session: AsyncSession, destination: str, order: Order) -> None:
    """Change the policy and move what is owed. Waits for publishers that are about to commit."""
    postgresql = session.get_bind().dialect.name == "postgresql"
    if postgresql:
        await session.execute(LOCK_ALONE, {"destination": destination})
    await session.execute(delete(orderings).where(orderings.c.destination == destination))
    if order.ordering is not Ordering.NONE:
        values = {"policy": order.ordering.value, "gap_seconds": order.gap_seconds}
        await session.execute(insert(orderings).values(destination=destination, **values))
        key, found = _KEY, _ALL
    else:
        key, found = "NULL", _FIND.format(lane=ORDERED)
    move = _MOVE.format(key=key, found=found, lock="FOR UPDATE" if postgresql else "")
    await session.execute(text(move), {"destination": destination})
    session.info.setdefault(DESTINATIONS, set()).add(destination)


async def forget_order(session: AsyncSession, destination: str) -> None:
    """The destination is gone for good: nothing of it waits for another, no key is counted."""
    await set_order(session, destination, Order())
    await session.execute(delete(ordering_keys).where(ordering_keys.c.destination == destination))
