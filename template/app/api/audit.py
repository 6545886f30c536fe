"""The audit log: who did what to which thing.

Invariant: the entry is written in the transaction of the act, so there is neither an act without an
entry nor an entry without an act.
"""

from typing import Any

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.tables import audit_log
from app.ids import uuid7


async def audit(session: AsyncSession, actor: str, action: str, target: str, **detail: Any) -> None:
    """Add an entry. `actor` is `key:<id>`, `cli:<user>` or `admin`; `action` like `message.retry`.

    Never pass a secret or a body in `detail`. Never commits.
    """
    await session.execute(
        insert(audit_log).values(
            id=uuid7(), actor=actor[:200], action=action, target=target[:200], detail=detail
        )
    )
