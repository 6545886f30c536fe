"""Replays as people see them: the structs behind API and `--json`, and their queries.

The JSON field names are the struct fields. Every query carries the caller's tenant.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.errors import NotFound
from app.outbox.replay_scan import ReplayRequest
from app.outbox.tables import replays

r = replays.c


class ReplayReport(Struct, frozen=True):
    """(event, endpoint) pairs, and what became of them: created + skipped = matched.

    Of a dry run `created` is 0; matched - skipped is what a replay would create.
    """

    matched: int
    created: int
    skipped: int


class Replay(Struct, frozen=True, kw_only=True):
    """A replay and how far it is; `finished_at` None: it goes on."""

    id: UUID
    actor: str
    since: datetime
    until: datetime
    tenant: str | None
    type: str | None
    endpoint_id: UUID | None
    per_second: float
    matched: int
    created: int
    skipped: int
    created_at: datetime
    finished_at: datetime | None

    def asked(self) -> dict[str, Any]:
        """What was asked for, for the audit log."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {name: plain[name] for name in ReplayRequest.__struct_fields__}


COLUMNS = tuple(r[name] for name in Replay.__struct_fields__)


async def find(session: AsyncSession, replay_id: UUID, tenant: str | None = None) -> Replay:
    """The replay; raises `NotFound`, also for another tenant's."""
    query = select(*COLUMNS).where(r.id == replay_id)
    if tenant is not None:
        query = query.where(r.tenant == tenant)
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound(f"there is no replay {replay_id}")
    return Replay(**row._mapping)


async def recent(session: AsyncSession, tenant: str | None, limit: int) -> list[Replay]:
    """The newest replays."""
    query = select(*COLUMNS).order_by(r.id.desc()).limit(limit)
    if tenant is not None:
        query = query.where(r.tenant == tenant)
    return [Replay(**row._mapping) for row in await session.execute(query)]
