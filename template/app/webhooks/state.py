"""The state of an endpoint that relays share, as statements: circuit breaker, owner, failing since.

Each is one conditional UPDATE that says whether it changed anything, so of several relays exactly
one wins; what people want to know is told (`operator_events.py`) in the same transaction.
Invariant: written when the state changes, never per message. `version` is raised only where an
endpoint is disabled: nothing else that a person configured has changed.
"""

from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, and_, null, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.audit import audit
from app.db.dialect import db_now, db_now_plus
from app.webhooks.operator_events import DISABLED, FAILING, RECOVERED, tell
from app.webhooks.tables import endpoints

e = endpoints.c
_TOLD = (e.id, e.tenant, e.description, e.failing_since)


async def open_breaker(session: AsyncSession, endpoint_id: UUID, seconds: float) -> bool:
    """Open it for so long, unless it is open; whether this call did."""
    changes = {"breaker_until": db_now_plus(seconds)}
    return await _changed(session, endpoint_id, e.breaker_until.is_(None), changes)


async def win_probe(session: AsyncSession, endpoint_id: UUID, seconds: float) -> bool:
    """Take the one probe of a period that is over; the next period begins with it.

    So a relay that dies with the probe leaves the breaker open, and nobody has to clean up.
    """
    changes = {"breaker_until": db_now_plus(seconds)}
    return await _changed(session, endpoint_id, e.breaker_until <= db_now(), changes)


async def close_breaker(session: AsyncSession, endpoint_id: UUID) -> bool:
    """The probe was taken."""
    changes = {"breaker_until": null()}
    return await _changed(session, endpoint_id, e.breaker_until.is_not(None), changes)


async def own(session: AsyncSession, endpoint_id: UUID, relay: UUID, seconds: float) -> bool:
    """Be the one relay that sends to it, for so long; False while another one is."""
    free = or_(e.owner.is_(None), e.owner == relay, e.owned_until <= db_now())
    changes = {"owner": relay, "owned_until": db_now_plus(seconds)}
    return await _changed(session, endpoint_id, free, changes)


async def disown(session: AsyncSession, relay: UUID) -> None:
    """The relay ends in an orderly way: let others take over at once."""
    changes = {"owner": null(), "owned_until": null()}
    await session.execute(update(endpoints).where(e.owner == relay).values(changes))


async def note_failing(session: AsyncSession, endpoint_id: UUID, seconds: float) -> None:
    """It has answered nothing but failures for so long; told once."""
    changes = {"failing_since": db_now_plus(-seconds)}
    row = await _write(session, endpoint_id, e.failing_since.is_(None), changes)
    if row is not None:
        await tell(session, FAILING, row)


async def note_recovered(session: AsyncSession, endpoint_id: UUID) -> None:
    """It has taken a message again."""
    was = select(*_TOLD).where(e.id == endpoint_id, e.failing_since.is_not(None))
    row = (await session.execute(was.with_for_update())).one_or_none()
    if row is not None:
        await _write(session, endpoint_id, true(), {"failing_since": null()})
        await tell(session, RECOVERED, row)


async def disable_failing(session: AsyncSession, endpoint_id: UUID, hours: float) -> bool:
    """Disable it if it has failed for so long; whether this call did."""
    long_enough = e.failing_since <= db_now_plus(-hours * 3600)
    reason = f"it has answered nothing but failures for {hours:g} h"
    return await _disable(session, endpoint_id, long_enough, reason, quiet=False)


async def disable_gone(
    session: AsyncSession, endpoint_id: UUID, version: int, *, quiet: bool = False
) -> bool:
    """Disable an endpoint that answered 410, unless it was changed since the request was made."""
    same = e.version == version
    return await _disable(session, endpoint_id, same, "it answered 410 Gone", quiet=quiet)


async def _disable(
    session: AsyncSession,
    endpoint_id: UUID,
    condition: ColumnElement[bool],
    reason: str,
    *,
    quiet: bool,
) -> bool:
    changes = {
        "status": "disabled",
        "disabled_reason": reason,
        "disabled_at": db_now(),
        "version": e.version + 1,
        "updated_at": db_now(),
    }
    row = await _write(session, endpoint_id, and_(condition, e.status == "enabled"), changes)
    if row is None:
        return False
    await audit(session, "relay", "endpoint.disable", str(endpoint_id), reason=reason)
    if not quiet:
        await tell(session, DISABLED, row, reason)
    return True


async def _changed(
    session: AsyncSession,
    endpoint_id: UUID,
    condition: ColumnElement[bool],
    changes: dict[str, Any],
) -> bool:
    return await _write(session, endpoint_id, condition, changes) is not None


async def _write(
    session: AsyncSession,
    endpoint_id: UUID,
    condition: ColumnElement[bool],
    changes: dict[str, Any],
) -> Row[Any] | None:
    statement = update(endpoints).where(e.id == endpoint_id, condition).values(changes)
    return (await session.execute(statement.returning(*_TOLD))).one_or_none()
