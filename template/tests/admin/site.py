"""The admin pages as a browser without scripts sees them, and parked messages to look at."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from httpx import Response
from litestar.testing import AsyncTestClient
from sqlalchemy import insert, select

from app.api.signin import create_login_token
from app.api.tables import audit_log
from app.config import Settings
from app.db.engine import Database
from app.ids import uuid7
from app.outbox.tables import attempts, events, outbox_messages
from app.webhooks.tables import endpoints
from app.wiring import create_app

CSRF = re.compile(r'name="csrf" value="([^"]+)"')
PARKED_FOR = timedelta(minutes=3)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[AsyncTestClient[Any]]:
    """A client that is not signed in; it does not follow redirects."""
    async with AsyncTestClient(create_app(settings, with_relay=False)) as client:
        client.follow_redirects = False
        yield client


async def new_link(database: Database, now: datetime | None = None) -> str:
    """The path of a sign-in link."""
    async with database.transaction() as session:
        return f"/admin/sign-in?token={await create_login_token(session, now)}"


async def sign_in(client: AsyncTestClient[Any], database: Database) -> Response:
    """Follow a fresh link and its redirect."""
    return await client.get(await new_link(database), follow_redirects=True)


async def press(client: AsyncTestClient[Any], path: str, **fields: str) -> Response:
    """Post a form with the CSRF token of the session."""
    page = await client.get("/admin/parked")
    found = CSRF.search(page.text)
    assert found is not None, page.text
    return await client.post(path, data={"csrf": found[1], **fields})


async def add_endpoint(
    database: Database, url: str = "https://shop.example/hooks", status: str = "enabled"
) -> UUID:
    """An endpoint; its secret does not matter here."""
    endpoint_id = uuid7()
    async with database.transaction() as session:
        await session.execute(
            insert(endpoints).values(
                id=endpoint_id, tenant="acme", url=url, status=status,
                disabled_reason="answered 410" if status == "disabled" else None,
            )
        )  # fmt: skip
    return endpoint_id


async def park(
    database: Database,
    endpoint_id: UUID,
    *,
    type: str = "order.paid",  # noqa: A002
    tenant: str = "acme",
    reason: str = "rejected",
    error: str = "the receiver answered 404 Not Found",
    body: bytes = b'{"type":"order.paid","timestamp":"2030-01-01T00:00:00Z","data":{"id":7}}',
    answer: bytes = b"no such shop",
) -> UUID:
    """A parked message after one attempt."""
    event_id, message_id = uuid7(), uuid7()
    parked_at = datetime.now(UTC) - PARKED_FOR
    destination = f"webhook:{endpoint_id}"
    async with database.transaction() as session:
        await session.execute(
            insert(events).values(
                id=event_id, type=type, tenant=tenant, body=body, occurred_at=parked_at
            )
        )
        await session.execute(
            insert(outbox_messages).values(
                id=message_id, event_id=event_id, destination=destination, attempts=1,
                last_error=error, parked_reason=reason, parked_at=parked_at,
            )
        )  # fmt: skip
        await session.execute(
            insert(attempts).values(
                message_id=message_id, number=1, event_id=event_id, type=type,
                destination=destination, started_at=parked_at, duration_ms=120.0,
                outcome="failed", status_code=404, error_kind="status", error=error,
                response_head=b"Content-Type: text/plain\r\n", response_body=answer,
            )
        )  # fmt: skip
    return message_id


async def status_of(database: Database, message_id: UUID) -> str:
    """Where a message stands."""
    async with database.read() as session:
        status: str | None = await session.scalar(
            select(outbox_messages.c.status).where(outbox_messages.c.id == message_id)
        )
    assert status is not None
    return status


async def audited(database: Database) -> list[tuple[str, str, str, dict[str, str]]]:
    """The audit log: actor, action, target, detail."""
    c = audit_log.c
    async with database.read() as session:
        rows = await session.execute(select(c.actor, c.action, c.target, c.detail).order_by(c.id))
        return [(row.actor, row.action, row.target, row.detail) for row in rows]
