"""Puts messages into a database, the way the application does it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID, uuid4

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.tables import audit_log
from app.db.dialect import db_now
from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.message import ParkedReason, webhook_destination
from app.outbox.publish import publish
from app.outbox.subscriptions import subscribe
from app.outbox.tables import outbox_messages
from app.webhooks.tables import endpoints
from tests.cli.command import Project
from tests.conftest import settings_for

T = TypeVar("T")


def in_transaction(project: Project, act: Callable[[AsyncSession], Awaitable[T]]) -> T:
    """Run `act` in one transaction on the project's database."""

    async def run() -> T:
        database = Database(settings_for(project.variables["APP_DATABASE_URL"]))
        try:
            async with database.transaction() as session:
                return await act(session)
        finally:
            await database.dispose()

    return asyncio.run(run())


def pending(project: Project, *types: str, tenant: str = "", data: Any = None) -> list[str]:
    """One message for each event type, all to one destination; their ids in that order."""

    async def act(session: AsyncSession) -> list[str]:
        endpoint_id = uuid4()
        row = {"id": endpoint_id, "tenant": tenant, "url": "http://127.0.0.1:9/"}
        await session.execute(insert(endpoints).values(row))
        destination = webhook_destination(endpoint_id)
        await subscribe(session, destination, tenant, ["*"])
        published = [
            await publish(session, Event(type=name, data=data, tenant=tenant)) for name in types
        ]
        m = outbox_messages.c
        query = select(m.event_id, m.id).where(m.destination == destination)
        ids = dict((await session.execute(query)).all())
        return [str(ids[event.event_id]) for event in published]

    return in_transaction(project, act)


def parked(
    project: Project,
    *types: str,
    tenant: str = "",
    data: Any = None,
    reason: ParkedReason = ParkedReason.REJECTED,
    error: str = "the receiver answered 404",
) -> list[str]:
    """The same, but parked after one attempt."""
    ids = pending(project, *types, tenant=tenant, data=data)

    async def act(session: AsyncSession) -> None:
        await session.execute(
            update(outbox_messages)
            .where(outbox_messages.c.id.in_([UUID(message_id) for message_id in ids]))
            .values(attempts=1, parked_at=db_now(), parked_reason=reason.value, last_error=error)
        )

    in_transaction(project, act)
    return ids


def audited(project: Project) -> list[tuple[str, str, str]]:
    """Actor, action and target of each audit entry, oldest first."""

    async def act(session: AsyncSession) -> list[tuple[str, str, str]]:
        a = audit_log.c
        rows = await session.execute(select(a.actor, a.action, a.target).order_by(a.id))
        return [(row.actor, row.action, row.target) for row in rows]

    return in_transaction(project, act)
