"""Endpoints as rows: finding them, always within the caller's tenant, and showing them.

Invariant: None is an operator and sees all, a tenant matches exactly, and what belongs to another
looks as if it did not exist. Every query of an endpoint by a person goes through `row_of`.
"""

from typing import Any
from uuid import UUID

from sqlalchemy import Row, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import db_now
from app.errors import Conflict, NotFound
from app.outbox.endpoint_states import breaker_words
from app.outbox.event import check_text
from app.outbox.message import Ordering, webhook_destination
from app.outbox.ordering import Order, order_of
from app.outbox.subscriptions import patterns_of
from app.program import program
from app.webhooks.credentials import auth_shown, certificate_shown, masked
from app.webhooks.endpoint import Endpoint
from app.webhooks.endpoint_rules import TENANT_LENGTH
from app.webhooks.retry import policy_of, span_in_words
from app.webhooks.schemes import Signature
from app.webhooks.tables import endpoints

e = endpoints.c


async def list_endpoints(
    session: AsyncSession,
    tenant: str | None = None,
    *,
    limit: int | None = None,
    before: UUID | None = None,
    deleted: bool = False,
) -> list[Endpoint]:
    """Endpoints, newest first, all or at most `limit`; `before` is the last id shown before."""
    query = select(endpoints).order_by(e.id.desc()).limit(limit)
    if tenant is not None:
        check_text("tenant", tenant, TENANT_LENGTH)
        query = query.where(e.tenant == tenant)
    if not deleted:
        query = query.where(e.status != "deleted")
    if before is not None:
        await row_of(session, before, tenant)
        query = query.where(e.id < before)
    rows = (await session.execute(query)).all()
    names = [webhook_destination(row.id) for row in rows]
    types, orders = await patterns_of(session, names), await order_of(session, names)
    return [shown(row, types[name], orders[name]) for row, name in zip(rows, names, strict=True)]


async def get_endpoint(
    session: AsyncSession, endpoint_id: UUID, tenant: str | None = None
) -> Endpoint:
    """One endpoint, also a deleted one; raises `NotFound`."""
    row = await row_of(session, endpoint_id, tenant)
    destination = webhook_destination(endpoint_id)
    types = await patterns_of(session, [destination])
    orders = await order_of(session, [destination])
    return shown(row, types[destination], orders[destination])


async def change(session: AsyncSession, endpoint_id: UUID, **values: Any) -> None:
    """Write `values` and raise the version, by which relays notice."""
    values |= {"version": e.version + 1, "updated_at": db_now()}
    await session.execute(update(endpoints).where(e.id == endpoint_id).values(values))


async def row_of(
    session: AsyncSession, endpoint_id: UUID, tenant: str | None, *, lock: bool = False
) -> Row[Any]:
    """The row, locked if asked; raises `NotFound`."""
    query = select(endpoints).where(e.id == endpoint_id)
    row = (await session.execute(query.with_for_update() if lock else query)).one_or_none()
    if row is None or (tenant is not None and row.tenant != tenant):
        raise NotFound(
            f"there is no endpoint {endpoint_id}", hint=f"run: {program()} endpoints list"
        )
    return row


async def living(session: AsyncSession, endpoint_id: UUID, tenant: str | None) -> Row[Any]:
    """The locked row of an endpoint that may still be changed; raises `Conflict` for a deleted."""
    row = await row_of(session, endpoint_id, tenant, lock=True)
    if row.status == "deleted":
        raise Conflict(f"endpoint {endpoint_id} is deleted", hint="make a new one for the same URL")
    return row


def shown(row: Row[Any], types: tuple[str, ...], order: Order) -> Endpoint:
    """A row as people see it."""
    policy = policy_of(row.retry)
    return Endpoint(
        id=row.id, url=row.url, types=types, tenant=row.tenant, description=row.description,
        timeout_seconds=row.timeout_seconds, retry=policy, retry_span=span_in_words(policy),
        ordering=order.ordering,
        gap_seconds=order.gap_seconds if order.ordering is Ordering.YIELD else None,
        rate_per_second=row.rate_per_second, max_in_flight=row.max_in_flight,
        signature=Signature(row.signature), headers=masked(row.headers),
        auth=auth_shown(row.auth), client_certificate=certificate_shown(row.auth),
        status=row.status,
        disabled_reason=row.disabled_reason, disabled_at=row.disabled_at,
        failing_since=row.failing_since, waits_for=_waits_for(row), created_at=row.created_at,
    )  # fmt: skip


def _waits_for(row: Row[Any]) -> str | None:
    if row.status != "enabled" or row.breaker_until is None:
        return None
    return breaker_words(row.breaker_until)
