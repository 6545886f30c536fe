"""Which (event, endpoint) pairs a replay is about: one bounded step over the events.

Without an endpoint: every endpoint that ever had a message of the event. With one: that endpoint,
for each event that its tenant and its patterns match, whether it had a message or not, so that a
new endpoint can get what was before it. Handlers are not replayed: what they did is done.

Invariants: a step looks at most at SCAN events, whatever the filter leaves of them, and stops
before it has more than PAIRS pairs (one event's fan-out is never cut). Events are walked by id,
a UUIDv7; `created_at` decides, and SLACK covers a clock that differs from the database's.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import Row, Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import db_now
from app.errors import BadRequest
from app.outbox.endpoint_states import endpoint_states
from app.outbox.event import check_text, utc_time
from app.outbox.message import webhook_destination
from app.outbox.prune_tables import first_id
from app.outbox.subscriptions import candidates, check_pattern, subscription_of
from app.outbox.tables import events, outbox_messages

SCAN = 500
PAIRS = 2000
SLACK = 3_600_000 << 80  # one hour, as a distance between UUIDv7s
DEFAULT_PER_SECOND = 100.0
SLOWEST_PER_SECOND, FASTEST_PER_SECOND = 0.01, 10_000.0
e, m = events.c, outbox_messages.c


class ReplayRequest(Struct, frozen=True, kw_only=True):
    """Which events: created in `since <= t < until`; None leaves a filter open."""

    since: datetime
    until: datetime
    type: str | None = None  # may be a pattern
    endpoint_id: UUID | None = None
    tenant: str | None = None
    per_second: float = DEFAULT_PER_SECOND


class Chosen(Struct, frozen=True):
    """A pair that gets a new message."""

    event_id: UUID
    destination: str


class Scan(Struct, frozen=True):
    """What one step found; `last` is the event to go on after, None at the end."""

    chosen: list[Chosen]
    skipped: int
    last: UUID | None

    @property
    def matched(self) -> int:
        """Every pair that the filter leaves."""
        return len(self.chosen) + self.skipped


def check_pace(per_second: float) -> None:
    """Raise `BadRequest` for a pace that is none."""
    if not SLOWEST_PER_SECOND <= per_second <= FASTEST_PER_SECOND:
        raise BadRequest(
            f"per_second: {per_second:g} is not between {SLOWEST_PER_SECOND:g} and "
            f"{FASTEST_PER_SECOND:g}"
        )


async def checked(session: AsyncSession, wanted: ReplayRequest) -> ReplayRequest:
    """The request in UTC and not beyond now. Raises `BadRequest` naming the field and the rule."""
    now = (await session.execute(select(db_now()))).scalar_one()
    since = utc_time("since", wanted.since) or now
    until = min(utc_time("until", wanted.until) or now, now)
    if since >= until:
        raise BadRequest(f"since: {since.isoformat()} is not before until, {until.isoformat()}")
    check_pace(wanted.per_second)
    if wanted.type is not None:
        check_pattern(wanted.type)
    check_text("tenant", wanted.tenant, 128)
    return msgspec.structs.replace(wanted, since=since, until=until)


async def scan(session: AsyncSession, wanted: ReplayRequest, after: UUID | None) -> Scan:
    """The next step of a replay, from the event `after` on."""
    low = after or UUID(int=max(0, first_id(wanted.since).int - SLACK))
    high = UUID(int=first_id(wanted.until).int + SLACK)
    query: Select[Any] = (
        select(e.id, e.type, e.tenant, e.created_at, e.erased_at)
        .where(e.id > low, e.id < high)
        .order_by(e.id)
        .limit(SCAN)
    )
    rows = (await session.execute(query)).all()
    last = rows[-1].id if len(rows) == SCAN else None
    found = [row for row in rows if _fits(row, wanted)]
    if wanted.endpoint_id is not None:
        destination = webhook_destination(wanted.endpoint_id)
        tenant, patterns = await subscription_of(session, destination)
        matching = [row for row in found if row.tenant == tenant and patterns & _patterns(row)]
        pairs = [Chosen(row.id, destination) for row in matching]
    else:
        found, cut = await _prefix(session, found)
        last = cut or last
        pairs = await _past_pairs(session, found)
    erased = {row.id for row in found if row.erased_at is not None}
    chosen = await _open_to(session, [pair for pair in pairs if pair.event_id not in erased])
    return Scan(chosen, len(pairs) - len(chosen), last)


def _fits(row: Row[Any], wanted: ReplayRequest) -> bool:
    return (
        wanted.since <= row.created_at < wanted.until
        and wanted.tenant in (None, row.tenant)
        and (wanted.type in (None, "*") or wanted.type in _patterns(row))
    )


def _patterns(row: Row[Any]) -> set[str]:
    return set(candidates(row.type))


async def _prefix(
    session: AsyncSession, found: list[Row[Any]]
) -> tuple[list[Row[Any]], UUID | None]:
    """The first events, as many as have at most PAIRS messages; and the last of them, if cut."""
    ids = [row.id for row in found]
    counted = select(m.event_id, func.count()).where(m.event_id.in_(ids)).group_by(m.event_id)
    counts: dict[UUID, int] = {row[0]: row[1] for row in await session.execute(counted)}
    total = 0
    for position, row in enumerate(found):
        total += counts.get(row.id, 0)
        if total > PAIRS and position > 0:
            return found[:position], found[position - 1].id
    return found, None


async def _past_pairs(session: AsyncSession, found: Sequence[Row[Any]]) -> list[Chosen]:
    query = (
        select(m.event_id, m.destination)
        .where(m.event_id.in_([row.id for row in found]), m.destination.startswith("webhook:"))
        .distinct()
        .order_by(m.event_id, m.destination)
    )
    return [Chosen(row.event_id, row.destination) for row in await session.execute(query)]


async def _open_to(session: AsyncSession, pairs: Sequence[Chosen]) -> list[Chosen]:
    """Those whose endpoint is enabled and that have no message pending or claimed."""
    destinations = sorted({pair.destination for pair in pairs})
    states = await endpoint_states(session, destinations)
    owed = select(m.event_id, m.destination).where(
        m.event_id.in_({pair.event_id for pair in pairs}),
        m.destination.in_(destinations),
        m.sent_at.is_(None),
        m.parked_at.is_(None),
    )
    pending = {(row.event_id, row.destination) for row in await session.execute(owed)}
    return [
        pair
        for pair in pairs
        if states[pair.destination] == "enabled"
        and (pair.event_id, pair.destination) not in pending
    ]
