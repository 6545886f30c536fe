"""The real application with a client, API keys and things to look at; used by HTTP tests."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
import uvicorn
from litestar import Litestar
from litestar.testing import AsyncTestClient
from sqlalchemy import func, insert, select

from app.api.keys import create_key
from app.api.tables import audit_log, idempotency_keys
from app.config import Settings
from app.db.engine import Database
from app.ids import uuid7
from app.outbox.message import webhook_destination
from app.outbox.subscriptions import subscribe
from app.outbox.tables import events, outbox_messages
from app.webhooks.tables import endpoints
from app.wiring import create_app

DEADLINE_SECONDS = 10
STORED = (events, outbox_messages, idempotency_keys, audit_log)


@dataclass(slots=True)
class Site:
    """A running application, seen from outside, and its database."""

    app: Litestar
    client: httpx.AsyncClient
    database: Database

    async def headers(self, scope: str = "admin", tenant: str | None = None) -> dict[str, str]:
        """The header of a new key."""
        async with self.database.transaction() as session:
            key, _ = await create_key(session, scope, tenant)
        return {"Authorization": f"Bearer {key}"}

    async def endpoint(self, *patterns: str, tenant: str = "", status: str = "enabled") -> UUID:
        """An endpoint that is subscribed to these patterns."""
        endpoint_id = uuid7()
        async with self.database.transaction() as session:
            await session.execute(
                insert(endpoints).values(
                    id=endpoint_id, tenant=tenant, url="http://127.0.0.1:9/", status=status
                )
            )
            await subscribe(session, webhook_destination(endpoint_id), tenant, patterns)
        return endpoint_id

    async def count(self, table: Any, *where: Any) -> int:
        """How many rows a table has."""
        async with self.database.read() as session:
            query = select(func.count()).select_from(table).where(*where)
            return (await session.execute(query)).scalar_one()

    async def stored(self) -> list[int]:
        """Row counts of everything a request may store."""
        return [await self.count(table) for table in STORED]


async def until(condition: Callable[[], Any]) -> None:
    """Wait until `await condition()` is true; fail after a deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await condition():  # noqa: ASYNC110 - the condition is in a database
            await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(settings: Settings, **options: Any) -> AsyncGenerator[Site]:
    """The application in this process; faults of it are answers, as on a server."""
    app = create_app(settings, **{"with_relay": False} | options)
    database = Database(settings)
    client: AsyncTestClient[Litestar]
    async with AsyncTestClient(app, raise_server_exceptions=False) as client:
        yield Site(app, client, database)
    await database.dispose()


@asynccontextmanager
async def served(settings: Settings, **options: Any) -> AsyncGenerator[Site]:
    """The application behind a real server on loopback."""
    app = create_app(settings, **{"with_relay": False} | options)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_config=None, lifespan="on", ws="none", access_log=False
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    database = Database(settings)

    async def started() -> bool:
        return server.started or task.done()

    try:
        await until(started)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            yield Site(app, client, database)
    finally:
        server.should_exit = True
        await task
        await database.dispose()
