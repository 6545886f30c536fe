"""Whether a destination takes messages: the one look over the fence.

A webhook destination is retried and replayed only while its endpoint is enabled. `app.webhooks` may
not be imported here, it stands above the outbox; so its table is named, not imported.
"""

from collections.abc import Iterable

from sqlalchemy import column, select, table
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import Id
from app.outbox.message import endpoint_id_of

ENABLED = "enabled"
_endpoints = table("endpoints", column("id", Id), column("status"))


async def endpoint_states(session: AsyncSession, destinations: Iterable[str]) -> dict[str, str]:
    """`enabled`, `disabled` or `deleted` for each; a destination of another kind is enabled."""
    ids = {destination: endpoint_id_of(destination) for destination in destinations}
    wanted = [endpoint_id for endpoint_id in ids.values() if endpoint_id is not None]
    c = _endpoints.c
    found = await session.execute(select(c.id, c.status).where(c.id.in_(wanted)))
    states = {row.id: row.status for row in found}
    return {d: ENABLED if i is None else states.get(i, "deleted") for d, i in ids.items()}
