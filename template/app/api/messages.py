"""`/api/messages`: look at messages; retry or dismiss what is parked; erase a body.

    list, show --read--> outbox/messages.py
    retry, dismiss, erase --one transaction--> outbox/ + audit entry

Invariant: every query carries the caller's tenant. An id, a filter or a cursor of another tenant
answers 404, as if it did not exist.
"""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.audit import audit
from app.api.auth import Caller, requires
from app.api.query import known_query
from app.db.engine import Database
from app.errors import BadRequest
from app.outbox import erasure, messages
from app.outbox.bulk_retry import RetryReport, retry_all
from app.outbox.endpoint_states import require_endpoint
from app.outbox.message import ParkedReason, Status
from app.outbox.messages import Message, MessageDetail, MessageFilter, Page

DEFAULT_LIMIT = 50
MAX_LIMIT = 200


class RetryAll(Struct, frozen=True, forbid_unknown_fields=True):
    """Which parked messages to retry; without any filter `all` has to be true."""

    type: Annotated[str, Meta(max_length=130)] | None = None
    endpoint_id: UUID | None = None
    tenant: Annotated[str, Meta(max_length=128)] | None = None
    reason: ParkedReason | None = None
    all: bool = False
    dry_run: bool = False
    per_second: float | None = None  # they become due one after the other, not all at once


class Dismissal(Struct, frozen=True, forbid_unknown_fields=True):
    """Why the message is closed without delivery."""

    reason: Annotated[str, Meta(min_length=1, max_length=500)]


class Messages(Controller):
    """Messages for people and their tools."""

    path = "/api/messages"
    tags = ("messages",)

    @get(guards=[requires("read"), known_query], summary="Messages, newest first")
    async def index(
        self,
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        status: FromQuery[Status | None] = None,
        type: FromQuery[str | None] = None,  # noqa: A002 - the name on the wire
        endpoint_id: FromQuery[UUID | None] = None,
        tenant: FromQuery[str | None] = None,
        reason: FromQuery[ParkedReason | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
        cursor: FromQuery[str | None] = None,
    ) -> Page:
        """One page; ask with its `next_cursor` for the next one.

        With `status=parked` the last parked comes first.
        """
        wanted = MessageFilter(
            status=status,
            type=type,
            endpoint_id=endpoint_id,
            tenant=caller.tenant_filter(tenant),
            reason=reason,
        )
        async with database.read() as session:
            await require_endpoint(session, wanted.endpoint_id, caller.tenant)
            return await messages.list_messages(session, wanted, limit, cursor)

    @get("/{message_id:uuid}", guards=[requires("read")], summary="One message")
    async def show(
        self,
        message_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> MessageDetail:
        """The message with its body and every attempt."""
        async with database.read() as session:
            return await messages.get_message(session, message_id, caller.tenant)

    @post(
        "/{message_id:uuid}/retry",
        guards=[requires("admin")],
        status_code=200,
        summary="Retry a parked message",
    )
    async def retry(
        self,
        message_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> Message:
        """The same message goes out again; numbering goes on, the ladder starts anew."""
        async with database.transaction() as session:
            message = await messages.retry(session, message_id, caller.tenant)
            await audit(session, caller.actor, "message.retry", str(message_id))
        return message

    @post(
        "/retry",
        guards=[requires("admin"), known_query],  # a filter belongs into the body
        status_code=200,
        summary="Retry parked messages",
    )
    async def retry_all(
        self,
        data: JSONBody[RetryAll],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> RetryReport:
        """Retry every parked message that matches, in small transactions; `dry_run` only counts.

        Interrupted, send it again: what was retried is not parked any more.
        """
        chosen = (data.type, data.endpoint_id, data.tenant, data.reason)
        if all(one is None for one in chosen) and not data.all:
            raise BadRequest("no filter is given", hint='name one, or send "all": true')
        wanted = MessageFilter(
            type=data.type,
            endpoint_id=data.endpoint_id,
            tenant=caller.tenant_filter(data.tenant),
            reason=data.reason,
        )
        async with database.read() as session:
            await require_endpoint(session, wanted.endpoint_id, caller.tenant)

        async def record(session: AsyncSession, count: int) -> None:
            detail = {"filter": msgspec.to_builtins(wanted), "retried": count}
            await audit(session, caller.actor, "message.retry", "filter", **detail)

        return await retry_all(
            database, wanted, record, per_second=data.per_second, dry_run=data.dry_run
        )

    @post(
        "/{message_id:uuid}/dismiss",
        guards=[requires("admin")],
        status_code=200,
        summary="Dismiss a parked message",
    )
    async def dismiss(
        self,
        message_id: FromPath[UUID],
        data: JSONBody[Dismissal],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> Message:
        """Close a parked message without delivering it; the reason goes to the audit log."""
        async with database.transaction() as session:
            message = await messages.dismiss(session, message_id, data.reason, caller.tenant)
            await audit(
                session, caller.actor, "message.dismiss", str(message_id), reason=data.reason
            )
        return message

    @post(
        "/{message_id:uuid}/erase",
        guards=[requires("admin")],
        status_code=200,
        summary="Erase the body of a message's event",
    )
    async def erase(
        self,
        message_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> MessageDetail:
        """For ever; what was still to be sent of the event is parked as `undeliverable`."""
        async with database.transaction() as session:
            message = await erasure.erase(session, message_id, caller.tenant)
            await audit(session, caller.actor, "message.erase", str(message_id))
        return message
