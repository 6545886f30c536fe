"""`/api/endpoints`: endpoints over HTTP; a service call in one transaction with its audit entry.

Invariant: every call carries the caller's tenant, and a foreign id answers 404. A secret is in the
answer to creation and rotation and nowhere else: these two ignore `Idempotency-Key`, because the
answer kept for a repetition would hold the secret in clear.
"""

from typing import Annotated
from uuid import UUID

from litestar import Controller, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from app.api.audit import audit
from app.api.auth import Caller, requires
from app.api.query import known_query
from app.cipher import Cipher
from app.config import Settings
from app.db.engine import Database
from app.webhooks import endpoints as service
from app.webhooks import ping
from app.webhooks.endpoint import (
    Disabling,
    Endpoint,
    EndpointCreate,
    EndpointCreated,
    EndpointPage,
    EndpointUpdate,
    Rotated,
    Rotation,
)

DEFAULT_LIMIT, MAX_LIMIT, NO_REASON, USUAL_OVERLAP = 50, 200, Disabling(), Rotation()


class Endpoints(Controller):
    """Webhook endpoints for people and their tools."""

    path = "/api/endpoints"
    tags = ("endpoints",)

    @post(guards=[requires("admin")], status_code=201, summary="Add an endpoint")
    async def create(
        self,
        data: JSONBody[EndpointCreate],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        cipher: NamedDependency[Cipher],
        settings: NamedDependency[Settings],
    ) -> EndpointCreated:
        """The secret in the answer is not shown again."""
        tenant = caller.tenant_for(data.tenant)
        async with database.transaction() as session:
            made = await service.create_endpoint(session, cipher, settings, data, tenant)
            await audit(session, caller.actor, "endpoint.create", str(made.id), tenant=tenant)
        return made

    @get(guards=[requires("read"), known_query], summary="Endpoints, newest first")
    async def index(
        self,
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        tenant: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
        cursor: FromQuery[UUID | None] = None,
    ) -> EndpointPage:
        """One page, without deleted ones; ask with its `next_cursor` for the next one."""
        wanted = caller.tenant_filter(tenant)
        async with database.read() as session:
            found = await service.list_endpoints(session, wanted, limit=limit + 1, before=cursor)
        items = found[:limit]
        return EndpointPage(items, items[-1].id if len(found) > limit else None)

    @get("/{endpoint_id:uuid}", guards=[requires("read")], summary="One endpoint")
    async def show(
        self,
        endpoint_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> Endpoint:
        """The endpoint, without its secret."""
        async with database.read() as session:
            return await service.get_endpoint(session, endpoint_id, caller.tenant)

    @patch("/{endpoint_id:uuid}", guards=[requires("admin")], summary="Change an endpoint")
    async def update(
        self,
        endpoint_id: FromPath[UUID],
        data: JSONBody[EndpointUpdate],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        cipher: NamedDependency[Cipher],
        settings: NamedDependency[Settings],
    ) -> Endpoint:
        """What is left out stays; null goes back to the default."""
        async with database.transaction() as session:
            endpoint = await service.update_endpoint(
                session, cipher, settings, endpoint_id, data, caller.tenant
            )
            await audit(session, caller.actor, "endpoint.update", str(endpoint_id))
        return endpoint

    @delete(
        "/{endpoint_id:uuid}",
        guards=[requires("admin")],
        status_code=204,
        summary="Delete an endpoint",
    )
    async def remove(
        self,
        endpoint_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> None:
        """Its secrets are erased; messages still open park as `endpoint_deleted`."""
        async with database.transaction() as session:
            await service.delete_endpoint(session, endpoint_id, caller.tenant)
            await audit(session, caller.actor, "endpoint.delete", str(endpoint_id))

    @post(
        "/{endpoint_id:uuid}/rotate-secret",
        guards=[requires("admin")],
        status_code=200,
        summary="Replace the secret",
    )
    async def rotate(
        self,
        endpoint_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        cipher: NamedDependency[Cipher],
        data: JSONBody[Rotation] = USUAL_OVERLAP,
    ) -> Rotated:
        """Both secrets sign until `old_secret_until`; the new one is not shown again."""
        async with database.transaction() as session:
            rotated = await service.rotate_secret(
                session, cipher, endpoint_id, data.overlap_seconds, caller.tenant,
                signature=data.signature,
            )  # fmt: skip
            await audit(session, caller.actor, "endpoint.rotate", str(endpoint_id))
        return rotated

    @post(
        "/{endpoint_id:uuid}/disable",
        guards=[requires("admin")],
        status_code=200,
        summary="Stop sending",
    )
    async def disable(
        self,
        endpoint_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        data: JSONBody[Disabling] = NO_REASON,
    ) -> Endpoint:
        """What is pending parks as `endpoint_disabled` at its next claim; no attempt is spent."""
        async with database.transaction() as session:
            endpoint = await service.disable_endpoint(
                session, endpoint_id, data.reason, caller.tenant
            )
            await audit(
                session, caller.actor, "endpoint.disable", str(endpoint_id), reason=data.reason
            )
        return endpoint

    @post(
        "/{endpoint_id:uuid}/enable",
        guards=[requires("admin")],
        status_code=200,
        summary="Send again",
    )
    async def enable(
        self,
        endpoint_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> Endpoint:
        """Messages that were parked meanwhile wait for a retry."""
        async with database.transaction() as session:
            endpoint = await service.enable_endpoint(session, endpoint_id, caller.tenant)
            await audit(session, caller.actor, "endpoint.enable", str(endpoint_id))
        return endpoint

    @post(
        "/{endpoint_id:uuid}/test",
        guards=[requires("admin")],
        status_code=200,
        summary="Send a test request",
    )
    async def test(
        self,
        endpoint_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        cipher: NamedDependency[Cipher],
        settings: NamedDependency[Settings],
    ) -> ping.PingReport:
        """One signed `endpoint.test`; the answer explained in words. Nothing is stored."""
        return await ping.test_endpoint(database, cipher, settings, endpoint_id, caller.tenant)
