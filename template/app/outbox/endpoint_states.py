"""Whether a destination takes messages: the one look over the fence.

A webhook destination is retried and replayed only while its endpoint is enabled. `app.webhooks` may
not be imported here, it stands above the outbox; so its table is named, not imported.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from sqlalchemy import Float, Integer, column, select, table
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import Id, UtcDateTime
from app.errors import NotFound
from app.outbox.message import Status, endpoint_id_of
from app.program import program

ENABLED = "enabled"
_endpoints = table(
    "endpoints",
    column("id", Id),
    column("tenant"),
    column("status"),
    column("rate_per_second", Float),
    column("max_in_flight", Integer),
    column("breaker_until", UtcDateTime),
)


async def endpoint_states(session: AsyncSession, destinations: Iterable[str]) -> dict[str, str]:
    """`enabled`, `disabled` or `deleted` for each; a destination of another kind is enabled."""
    ids = {destination: endpoint_id_of(destination) for destination in destinations}
    wanted = [endpoint_id for endpoint_id in ids.values() if endpoint_id is not None]
    c = _endpoints.c
    found = await session.execute(select(c.id, c.status).where(c.id.in_(wanted)))
    states = {row.id: row.status for row in found}
    return {d: ENABLED if i is None else states.get(i, "deleted") for d, i in ids.items()}


async def require_endpoint(
    session: AsyncSession, endpoint_id: UUID | None, tenant: str | None = None
) -> None:
    """Raise `NotFound` for a filter by an endpoint that never was, or is another tenant's.

    A deleted one passes: its row stays, and so do its messages.
    """
    if endpoint_id is None:
        return
    c = _endpoints.c
    owner = (await session.execute(select(c.tenant).where(c.id == endpoint_id))).one_or_none()
    if owner is None or tenant not in (None, owner.tenant):
        raise NotFound(
            f"there is no endpoint {endpoint_id}", hint=f"run: {program()} endpoints list"
        )


async def waits_for(session: AsyncSession, destination: str, status: str) -> str | None:
    """Why a message of this destination that is due may still have to wait."""
    endpoint_id = endpoint_id_of(destination) if status == Status.PENDING else None
    c = _endpoints.c
    query = select(_endpoints).where(c.id == endpoint_id, c.status == ENABLED)
    row = (await session.execute(query)).one_or_none()
    if row is None:
        return None
    if row.breaker_until is not None:
        return breaker_words(row.breaker_until)
    limits = []
    if row.rate_per_second is not None:
        limits.append(f"{row.rate_per_second:g} a second")
    if row.max_in_flight is not None:
        limits.append(f"{row.max_in_flight} at once")
    return f"its turn: the endpoint takes {' and '.join(limits)}" if limits else None


def breaker_words(until: datetime) -> str:
    """An open circuit breaker, in words."""
    moment = until.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"the endpoint's circuit breaker, which is open: one probe after {moment}"
