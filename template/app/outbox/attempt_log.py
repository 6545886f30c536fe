"""The log of a message's attempts, as people see it."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.outbox.tables import attempts


class Attempt(Struct, frozen=True, kw_only=True):
    """One line; `outcome` is delivered, failed or lost."""

    number: int
    started_at: datetime
    duration_ms: float
    outcome: str
    status_code: int | None
    error_kind: str | None
    error: str | None
    response_head: str | None
    response_body: str | None


async def attempt_log(session: AsyncSession, message_id: UUID) -> list[Attempt]:
    """Every attempt, the first first; bytes that are no text are replaced."""
    a = attempts.c
    rows = await session.execute(
        select(attempts).where(a.message_id == message_id).order_by(a.number)
    )
    log = []
    for row in rows:
        shown = {name: getattr(row, name) for name in Attempt.__struct_fields__}
        for name in ("response_head", "response_body"):
            if shown[name] is not None:
                shown[name] = shown[name].decode(errors="replace")
        log.append(Attempt(**shown))
    return log
