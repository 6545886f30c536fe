"""Subscriptions: which destination gets which event types.

A pattern is an exact type (`order.paid`), a prefix (`order.*`) or everything (`*`). Invariant:
matching is equality with the few patterns that a type can match (`candidates`), so publish finds
subscribers by an index, however many there are. Operator events (`endpoint.*`, `message.*`) are
matched only by patterns that name them, never by `*`.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.errors import BadRequest
from app.ids import uuid7
from app.outbox.event import SHOWN, TYPE, TYPE_LENGTH
from app.outbox.tables import subscriptions

OPERATOR_FAMILIES = frozenset({"endpoint", "message"})


def check_pattern(text: str) -> str:
    """The pattern, if it is one; raises `BadRequest` with the rule."""
    prefix = text.removesuffix(".*")
    if text == "*" or (len(prefix) <= TYPE_LENGTH and TYPE.fullmatch(prefix)):
        return text
    raise BadRequest(
        f"types: {text[:SHOWN]!r} is not a pattern: an exact type, a prefix that ends in .*, or *",
        hint="for example order.paid, order.* or *",
    )


def is_operator_type(event_type: str) -> bool:
    """Whether it tells of the outbox itself; nothing that happens to such a message is told."""
    return event_type.partition(".")[0] in OPERATOR_FAMILIES


def candidates(event_type: str) -> list[str]:
    """Every pattern that matches the type: `a.b` gives `a.b`, `a.*` and `*`."""
    words = event_type.split(".")
    patterns = [event_type]
    patterns += [".".join(words[:n]) + ".*" for n in range(len(words) - 1, 0, -1)]
    if not is_operator_type(event_type):
        patterns.append("*")
    return patterns


async def subscribe(
    session: AsyncSession, destination: str, tenant: str, patterns: Iterable[str]
) -> None:
    """Set the patterns of a destination; the ones it had before are replaced. Never commits."""
    wanted = sorted({check_pattern(pattern) for pattern in patterns})
    await unsubscribe(session, destination)
    if wanted:
        rows = [
            {"id": uuid7(), "tenant": tenant, "pattern": pattern, "destination": destination}
            for pattern in wanted
        ]
        await session.execute(insert(subscriptions), rows)


async def unsubscribe(session: AsyncSession, destination: str) -> None:
    """Remove every pattern of a destination. Never commits."""
    await session.execute(delete(subscriptions).where(subscriptions.c.destination == destination))


async def subscription_of(session: AsyncSession, destination: str) -> tuple[str, frozenset[str]]:
    """The tenant and the patterns of one destination; no patterns when it has none."""
    s = subscriptions.c
    query = select(s.tenant, s.pattern).where(s.destination == destination)
    rows = (await session.execute(query)).all()
    return (rows[0].tenant if rows else "", frozenset(row.pattern for row in rows))


async def patterns_of(
    session: AsyncSession, destinations: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The patterns of each destination, sorted; empty for one that has none."""
    s = subscriptions.c
    query = select(s.destination, s.pattern).where(s.destination.in_(destinations))
    found: dict[str, list[str]] = {destination: [] for destination in destinations}
    for destination, pattern in await session.execute(query.order_by(s.pattern)):
        found[destination].append(pattern)
    return {destination: tuple(patterns) for destination, patterns in found.items()}
