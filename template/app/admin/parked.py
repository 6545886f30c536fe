"""The parked messages: list, one message, retry, dismiss.

    GET  /admin/parked, /admin/parked/{id}            read only
    POST /admin/parked/{id}/retry, …/dismiss          one transaction: the act and its audit entry

Invariant: the page changes a message only through `outbox/messages.py`, exactly as the API and the
command line do, and answers every change with a redirect, so that a reload repeats nothing.
"""

from typing import Any
from uuid import UUID

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery
from sqlalchemy.ext.asyncio import AsyncSession

from app.admin.gate import AnyRequest, form_field
from app.admin.html import page, redirect
from app.admin.queries import (
    COUNTED,
    database_now,
    endpoint_infos,
    event_body,
    parked_groups,
    parked_times,
)
from app.admin.view import Filter, Row, fields_of, row_of
from app.api.audit import audit
from app.config import Settings
from app.db.engine import Database
from app.errors import BadRequest, NotFound
from app.outbox.message import endpoint_id_of
from app.outbox.messages import (
    REASON_LENGTH,
    Message,
    dismiss,
    get_message,
    list_messages,
    retry,
)

ACTOR = "admin"
PAGE_SIZE = 50
ALL_TENANTS = None


@get("/parked")
async def parked_list(
    request: AnyRequest,
    database: NamedDependency[Database],
    type: FromQuery[str] = "",  # noqa: A002 - the name of the field in the address
    endpoint: FromQuery[str] = "",
    reason: FromQuery[str] = "",
    cursor: FromQuery[str] = "",
    done: FromQuery[str] = "",
) -> Response[Any]:
    """The newest parked messages that fit the filter. `done` is the message just acted on."""
    chosen = Filter(type.strip(), endpoint.strip(), reason.strip())
    async with database.read() as session:
        found = await list_messages(session, chosen.wanted, PAGE_SIZE, cursor or None)
        groups = await parked_groups(session)
        ids = {endpoint_id_of(group.destination) for group in groups}
        infos = await endpoint_infos(session, {i for i in ids if i})
        return page(
            request,
            "parked.html",
            rows=await _rows(session, found.items),
            total=sum(group.count for group in groups),
            counted=COUNTED,
            filter=chosen,
            fields=fields_of(chosen, groups, infos),
            notice=await _notice(session, done),
            paged=bool(cursor),
            next_cursor=found.next_cursor,
            now=await database_now(session),
        )


@get("/parked/{message_id:uuid}")
async def parked_message(
    request: AnyRequest,
    database: NamedDependency[Database],
    settings: NamedDependency[Settings],
    message_id: FromPath[UUID],
) -> Response[Any]:
    """One message, whatever its status: a link to it stays good after a retry."""
    return await _message_page(request, database, settings, message_id)


@post("/parked/{message_id:uuid}/retry")
async def retry_message(
    request: AnyRequest, database: NamedDependency[Database], message_id: FromPath[UUID]
) -> Response[Any]:
    """Back to pending, due now. Raises `Conflict` when it is not parked or can't be sent."""
    async with database.transaction() as session:
        await retry(session, message_id, ALL_TENANTS)
        await audit(session, ACTOR, "message.retry", str(message_id))
    back = Filter(*(form_field(request, name) for name in ("type", "endpoint", "reason")))
    return redirect("/admin/parked" + back.query(done=str(message_id)))


@post("/parked/{message_id:uuid}/dismiss")
async def dismiss_message(
    request: AnyRequest,
    database: NamedDependency[Database],
    settings: NamedDependency[Settings],
    message_id: FromPath[UUID],
) -> Response[Any]:
    """Closed for good, with a reason."""
    reason = form_field(request, "reason")
    try:
        async with database.transaction() as session:
            await dismiss(session, message_id, reason, ALL_TENANTS)
            await audit(session, ACTOR, "message.dismiss", str(message_id), reason=reason)
    except BadRequest as error:
        return await _message_page(
            request, database, settings, message_id, problem=error.message, reason=reason
        )
    return redirect(f"/admin/parked?done={message_id}")


@get(["/parked/{message_id:uuid}/retry", "/parked/{message_id:uuid}/dismiss"])
async def back_to_message(message_id: FromPath[UUID]) -> Response[Any]:
    """Somebody opened the address of a button: show the message, change nothing."""
    return redirect(f"/admin/parked/{message_id}")


async def _message_page(
    request: AnyRequest,
    database: Database,
    settings: Settings,
    message_id: UUID,
    *,
    problem: str = "",
    reason: str = "",
) -> Response[Any]:
    async with database.read() as session:
        detail = await get_message(session, message_id, ALL_TENANTS)
        [row] = await _rows(session, [detail])
        return page(
            request,
            "message.html",
            status=400 if problem else 200,
            row=row,
            attempts=detail.attempt_log[::-1],
            body=await event_body(session, detail.event_id),
            problem=problem,
            reason=reason,
            reason_length=REASON_LENGTH,
            kept_days=settings.prune_sent_days,
            now=await database_now(session),
        )


async def _rows(session: AsyncSession, messages: list[Message]) -> list[Row]:
    infos = await endpoint_infos(session, {m.endpoint_id for m in messages if m.endpoint_id})
    times = await parked_times(session, {m.id for m in messages})
    return [
        row_of(m, infos.get(m.endpoint_id) if m.endpoint_id else None, times.get(m.id))
        for m in messages
    ]


async def _notice(session: AsyncSession, done: str) -> Row | None:
    """The message just acted on as it stands now; a forged or old id shows nothing."""
    try:
        detail = await get_message(session, UUID(done), ALL_TENANTS)
    except (ValueError, NotFound):
        return None
    return (await _rows(session, [detail]))[0]


ROUTES = (parked_list, parked_message, retry_message, dismiss_message, back_to_message)
