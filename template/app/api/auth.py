"""Who calls, and what they may do. Runs before a handler, its parameters and its body.

    Authorization: Bearer <key> --authenticate--> Caller --requires(scope)--> handler

Invariant: deny by default. A handler that says nothing needs scope `admin`; one is open only when
its own `opt` says so (a list of path patterns would open neighbours of what it means to open):

- `opt=PUBLIC`: anybody. Health and documentation.
- `opt=OWN_GUARD`: the feature checks in guards of its own. The admin pages with their sessions.
- `guards=[requires("read")]`: a key with this scope.

Tenants: a key of a tenant sees and writes only that tenant. What belongs to another one does not
exist for it (404); naming another one in a body is refused (403).
"""

import asyncio
import time
from typing import Any
from uuid import UUID

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard
from msgspec import Struct

from app.api.keys import LAST_USED_EVERY_SECONDS, Scope, find_key, touch_key
from app.db.engine import Database
from app.errors import Forbidden, NotFound, Unauthorized
from app.program import program

ACCESS = "access"
PUBLIC = {ACCESS: "public"}
OWN_GUARD = {ACCESS: "own guard"}
CALLER = "caller"  # key of the connection state
NEEDS = "needs_scope"  # attribute of the guards made by `requires`

Connection = ASGIConnection[Any, Any, Any, Any]


class Caller(Struct, frozen=True):
    """The holder of the API key of this request. `tenant` None: an operator, sees all tenants."""

    key_id: UUID
    scope: Scope
    tenant: str | None

    @property
    def actor(self) -> str:
        """Who this is in the audit log."""
        return f"key:{self.key_id}"

    def tenant_for(self, requested: str | None) -> str:
        """The tenant that a write goes to. Raises `Forbidden` for a tenant that is not the key's.

        An operator who names none writes to the tenant `''`.
        """
        if self.tenant is None:
            return requested or ""
        if requested is not None and requested != self.tenant:
            raise Forbidden(f"this key can't write to tenant {requested!r}")
        return self.tenant

    def tenant_filter(self, requested: str | None) -> str | None:
        """The tenant to list (None: all). Raises `NotFound` for one that is not the key's."""
        if self.tenant is None:
            return requested
        if requested is not None and requested != self.tenant:
            raise NotFound(f"there is no tenant {requested!r}")
        return self.tenant


def requires(scope: str) -> Guard:
    """A guard: the caller's key has this scope, or `admin`."""
    needed = Scope(scope)

    async def guard(connection: Connection, _: BaseRouteHandler) -> None:
        caller = caller_of(connection)
        if not caller.scope.allows(needed):
            raise Forbidden(
                f"this needs a key with scope {needed}; yours has {caller.scope}",
                hint=f"run: {program()} keys create --scope {needed}",
            )

    setattr(guard, NEEDS, needed)
    return guard


async def operators_only(connection: Connection, _: BaseRouteHandler) -> None:
    """A guard beside `requires`: what counts all tenants together is no tenant's business."""
    if caller_of(connection).tenant is not None:
        raise Forbidden("this needs an operator's key; yours belongs to a tenant")


def caller_of(connection: Connection) -> Caller:
    """Who calls. For routes that need a key; there is nobody on a public one."""
    caller: Caller = connection.scope["state"][CALLER]
    return caller


async def provide_caller(request: Connection) -> Caller:
    """`caller: NamedDependency[Caller]` of a handler."""
    return caller_of(request)


class Authenticator:
    """The guard of the whole application: finds the key, refuses who has none."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._touched: dict[UUID, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, connection: Connection, handler: BaseRouteHandler) -> None:
        """Leave the `Caller` in the connection's state. Raises `Unauthorized` or `Forbidden`."""
        if ACCESS in handler.opt:
            return
        caller = await self._authenticate(connection)
        connection.scope["state"][CALLER] = caller
        says = [guard for guard in handler.resolve_guards() if hasattr(guard, NEEDS)]
        if not says and caller.scope is not Scope.ADMIN:
            raise Forbidden("this needs a key with scope admin")

    async def _authenticate(self, connection: Connection) -> Caller:
        kind, _, text = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not text:
            raise Unauthorized(
                "there is no API key on the request",
                hint=f"send Authorization: Bearer <key>; make one with {program()} keys create",
            )
        async with self._database.read() as session:
            key = await find_key(session, text.strip())
        if key is None:
            raise Unauthorized("the API key is unknown or revoked")
        self._touch_later(key.id)
        return Caller(key_id=key.id, scope=key.scope, tenant=key.tenant)

    def _touch_later(self, key_id: UUID) -> None:
        # Beside the request, never in its way: the time of last use may be lost.
        now = time.monotonic()
        if now - self._touched.get(key_id, -LAST_USED_EVERY_SECONDS) < LAST_USED_EVERY_SECONDS:
            return
        self._touched[key_id] = now
        task = asyncio.create_task(self._touch(key_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _touch(self, key_id: UUID) -> None:
        try:
            async with self._database.transaction() as session:
                await touch_key(session, key_id)
        except Exception:
            self._touched.pop(key_id, None)

    async def close(self) -> None:
        """Wait for what is still being written."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
