"""`POST /api/events`: publish over HTTP, for systems that have no transaction of ours to join.

One event, or a list under `events`, all or nothing. Where to change what: which types are promised
is the catalogue's (`outbox/catalogue.py`); what an event may hold is `outbox/event.py`'s.

Invariant: operator events (`endpoint.*`, `message.*`) come from the application alone: an operator
may rely on them, and that the message of one has parked is never told.
"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.auth import Caller, requires
from app.api.idempotency import Identity, answer_once
from app.config import Settings
from app.db.engine import Database
from app.errors import Unprocessable
from app.observe.tracing import current_traceparent
from app.outbox.event import SHOWN, Event
from app.outbox.publish import publish_all
from app.outbox.subscriptions import OPERATOR_FAMILIES, is_operator_type

MAX_EVENTS = 1000


class NewEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """An event to publish."""

    type: Annotated[str, Meta(max_length=128, examples=["order.paid"])]
    data: Any
    tenant: Annotated[str, Meta(max_length=128)] | None = None
    ordering_key: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    occurred_at: Annotated[datetime, Meta(tz=True)] | None = None
    available_at: Annotated[datetime, Meta(tz=True)] | None = None


class NewEvents(Struct, frozen=True, forbid_unknown_fields=True):
    """Several events: all are stored, or none."""

    events: Annotated[list[NewEvent], Meta(min_length=1, max_length=MAX_EVENTS)]


class Taken(Struct, frozen=True):
    """A stored event, and how many messages it owes."""

    id: UUID
    messages: int


class AllTaken(Struct, frozen=True):
    """The stored events, in the order of the request."""

    events: list[Taken]


@post(
    "/api/events",
    guards=[requires("events:write")],
    status_code=201,
    summary="Publish one event or several",
    tags=["events"],
)
async def publish_events(
    data: JSONBody[NewEvent | NewEvents],
    caller: NamedDependency[Caller],
    settings: NamedDependency[Settings],
    database: NamedDependency[Database],
    identity: NamedDependency[Identity | None],
) -> Response[Taken | AllTaken]:
    """Store events with a message for every subscribed destination.

    Types that begin with `endpoint` or `message` are reserved for operator events: 422.
    """
    listed = isinstance(data, NewEvents)
    given = data.events if isinstance(data, NewEvents) else [data]
    _refuse_reserved(given, listed=listed)
    batch = [_event(event, caller) for event in given]

    async def work(session: AsyncSession) -> Taken | AllTaken:
        published = await publish_all(session, batch, settings.event_limit_bytes)
        taken = [Taken(one.event_id, one.messages) for one in published]
        return AllTaken(taken) if listed else taken[0]

    return await answer_once(database, identity, work, status_code=201)


def _refuse_reserved(given: list[NewEvent], *, listed: bool) -> None:
    """Raise `Unprocessable` for the first type that only the application itself may tell."""
    for position, event in enumerate(given):
        if is_operator_type(event.type):
            path = f"events[{position}].type" if listed else "type"
            refused = event.type[:SHOWN]
            reserved = " and ".join(f"{family}.*" for family in sorted(OPERATOR_FAMILIES))
            raise Unprocessable(
                f"{path}: {refused!r} is reserved: {reserved} are told by the application itself",
                hint=f"begin with another word, for example shop.{refused}",
            )


def _event(new: NewEvent, caller: Caller) -> Event:
    return Event(
        type=new.type,
        data=new.data,
        tenant=caller.tenant_for(new.tenant),
        ordering_key=new.ordering_key,
        occurred_at=new.occurred_at,
        available_at=new.available_at,
        traceparent=current_traceparent(),
    )
