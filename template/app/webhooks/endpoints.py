"""Endpoints: make, change, disable, rotate, delete. Functions on the caller's session.

Invariant: each change raises `version`, by which relays notice it within a second. No function
commits; callers write the audit entry in the same transaction. Messages are not touched: the relay
parks what is pending for a disabled or deleted endpoint when it next claims it.
"""

from uuid import UUID

from msgspec import UNSET, structs
from sqlalchemy import delete, insert, null
from sqlalchemy.ext.asyncio import AsyncSession

from app.cipher import Cipher
from app.config import Settings
from app.db.dialect import db_now
from app.ids import uuid7
from app.outbox.event import check_text
from app.outbox.message import webhook_destination
from app.outbox.ordering import forget_order
from app.outbox.subscriptions import subscribe, unsubscribe
from app.webhooks.credentials import sealed_auth, sealed_headers
from app.webhooks.endpoint import (
    Endpoint,
    EndpointCreate,
    EndpointCreated,
    EndpointUpdate,
)
from app.webhooks.endpoint_rows import change, get_endpoint, list_endpoints, living, row_of
from app.webhooks.endpoint_rules import check_create, check_update
from app.webhooks.operator_events import DISABLED, tell
from app.webhooks.order import change_order
from app.webhooks.retry import stored_policy
from app.webhooks.rotation import add_key, rotate_secret
from app.webhooks.tables import endpoint_secrets, endpoints

__all__ = [
    "create_endpoint", "delete_endpoint", "disable_endpoint", "enable_endpoint",
    "get_endpoint", "list_endpoints", "rotate_secret", "update_endpoint",
]  # fmt: skip

REASON_LENGTH = 200

e, s = endpoints.c, endpoint_secrets.c


async def create_endpoint(
    session: AsyncSession, cipher: Cipher, settings: Settings, wanted: EndpointCreate, tenant: str
) -> EndpointCreated:
    """A new endpoint of `tenant` with its secret; raises `BadRequest` naming the broken rule."""
    check_create(wanted, tenant, settings)
    values = {
        "id": uuid7(),
        "tenant": tenant,
        "url": wanted.url,
        "description": wanted.description,
        "timeout_seconds": wanted.timeout_seconds,
        "retry": stored_policy(wanted.retry),
        "rate_per_second": wanted.rate_per_second,
        "max_in_flight": wanted.max_in_flight,
        "signature": wanted.signature.value,
        "headers": sealed_headers(cipher, wanted.headers),
        "auth": sealed_auth(cipher, None, wanted.auth, wanted.client_certificate),
    }
    await session.execute(insert(endpoints).values(values))
    endpoint_id = values["id"]
    destination = webhook_destination(endpoint_id)
    await subscribe(session, destination, tenant, wanted.types)
    await change_order(session, destination, wanted.ordering, wanted.gap_seconds)
    secret = await add_key(session, cipher, endpoint_id, wanted.signature)
    endpoint = await get_endpoint(session, endpoint_id, tenant)
    return EndpointCreated(secret=secret, **structs.asdict(endpoint))


async def update_endpoint(
    session: AsyncSession,
    cipher: Cipher,
    settings: Settings,
    endpoint_id: UUID,
    wanted: EndpointUpdate,
    tenant: str | None = None,
) -> Endpoint:
    """Change what is given; raises `BadRequest`, `NotFound`, or `Conflict` for a deleted one."""
    check_update(wanted, settings)
    row = await living(session, endpoint_id, tenant)
    changes = {name: v for name, v in structs.asdict(wanted).items() if v is not UNSET}
    types = changes.pop("types", None)
    for name in ("ordering", "gap_seconds"):
        changes.pop(name, None)
    destination = webhook_destination(endpoint_id)
    await change_order(session, destination, wanted.ordering, wanted.gap_seconds)
    if "retry" in changes:
        changes["retry"] = stored_policy(changes["retry"])
    if "headers" in changes:
        changes["headers"] = sealed_headers(cipher, changes["headers"])
    if {"auth", "client_certificate"} & set(changes):
        changes["auth"] = sealed_auth(cipher, row.auth, wanted.auth, wanted.client_certificate)
        changes.pop("client_certificate", None)
    if types is not None:
        await subscribe(session, destination, row.tenant, types)
    await change(session, endpoint_id, **changes)
    return await get_endpoint(session, endpoint_id, tenant)


async def disable_endpoint(
    session: AsyncSession, endpoint_id: UUID, reason: str, tenant: str | None = None
) -> Endpoint:
    """Stop deliveries: what is pending parks at its next claim, and no attempt is spent."""
    check_text("reason", reason, REASON_LENGTH)
    row = await living(session, endpoint_id, tenant)
    if row.status == "enabled":
        changes = {"status": "disabled", "disabled_reason": reason, "disabled_at": db_now()}
        await change(session, endpoint_id, **changes)
        await tell(session, DISABLED, row, reason)
    return await get_endpoint(session, endpoint_id, tenant)


async def enable_endpoint(
    session: AsyncSession, endpoint_id: UUID, tenant: str | None = None
) -> Endpoint:
    """Resume deliveries. Messages that were parked meanwhile wait for a person's retry."""
    row = await living(session, endpoint_id, tenant)
    if row.status == "disabled":
        changes = {"status": "enabled", "disabled_reason": null(), "disabled_at": null()}
        await change(session, endpoint_id, **changes, failing_since=null(), breaker_until=null())
    return await get_endpoint(session, endpoint_id, tenant)


async def delete_endpoint(
    session: AsyncSession, endpoint_id: UUID, tenant: str | None = None
) -> Endpoint:
    """Delete for good: subscriptions and secrets go, the row stays to explain old messages."""
    row = await row_of(session, endpoint_id, tenant, lock=True)
    if row.status != "deleted":
        await unsubscribe(session, webhook_destination(endpoint_id))
        await forget_order(session, webhook_destination(endpoint_id))
        await session.execute(delete(endpoint_secrets).where(s.endpoint_id == endpoint_id))
        await change(session, endpoint_id, status="deleted", disabled_reason=null())
    return await get_endpoint(session, endpoint_id, tenant)
