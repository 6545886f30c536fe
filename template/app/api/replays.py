"""`/api/replays`: events of the past go out again.

    POST --one transaction--> the replay, its audit entry, the idempotency key
         --then, for INLINE_SECONDS--> the first steps; a relay takes the rest

A dry run only reads. A tenant's key replays its tenant and no other.
"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Controller, Response, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.audit import audit
from app.api.auth import Caller, requires
from app.api.idempotency import Identity, answer_once
from app.api.query import known_query
from app.db.engine import Database
from app.outbox import replay
from app.outbox.endpoint_states import require_endpoint
from app.outbox.replay import Replay, ReplayReport, ReplayRequest
from app.outbox.replay_scan import DEFAULT_PER_SECOND

INLINE_SECONDS = 2.0
DRY_RUN = ResponseSpec(ReplayReport, description="Of a dry run", generate_examples=False)


class NewReplay(Struct, frozen=True, forbid_unknown_fields=True):
    """Which events to replay: created in `since <= t < until`, and the filters."""

    since: Annotated[datetime, Meta(tz=True)]
    until: Annotated[datetime, Meta(tz=True)]
    type: Annotated[str, Meta(max_length=130)] | None = None
    endpoint_id: UUID | None = None
    tenant: Annotated[str, Meta(max_length=128)] | None = None
    per_second: float = DEFAULT_PER_SECOND
    dry_run: bool = False


class ReplayList(Struct, frozen=True):
    """Replays, newest first."""

    items: list[Replay]


class _Started(Struct, frozen=True):
    id: UUID


class Replays(Controller):
    """Replays and how far they are."""

    path = "/api/replays"
    tags = ("replays",)

    @post(
        guards=[requires("admin")],
        status_code=202,
        summary="Replay events",
        responses={200: DRY_RUN},
    )
    async def create(
        self,
        data: JSONBody[NewReplay],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        identity: NamedDependency[Identity | None],
    ) -> Response[ReplayReport]:
        """Make a new message for each (event, endpoint): 202 with the counts so far.

        `Location` names the replay; its messages become due `per_second`. A dry run answers 200.
        """
        wanted = ReplayRequest(
            since=data.since,
            until=data.until,
            type=data.type,
            endpoint_id=data.endpoint_id,
            tenant=caller.tenant_filter(data.tenant),
            per_second=data.per_second,
        )
        async with database.read() as session:
            await require_endpoint(session, wanted.endpoint_id, caller.tenant)
        if data.dry_run:
            return Response(await replay.dry_run(database, wanted), status_code=200)
        return await _carry_out(database, identity, wanted, caller)

    @get(guards=[requires("read"), known_query], summary="Replays, newest first")
    async def index(
        self,
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        limit: Annotated[int, QueryParameter(ge=1, le=200)] = 50,
    ) -> ReplayList:
        """The newest ones; `finished_at` is null while one goes on."""
        async with database.read() as session:
            return ReplayList(await replay.recent(session, caller.tenant, limit))

    @get("/{replay_id:uuid}", guards=[requires("read")], summary="One replay")
    async def show(
        self,
        replay_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> Replay:
        """The replay and how far it is."""
        async with database.read() as session:
            return await replay.find(session, replay_id, caller.tenant)


async def _carry_out(
    database: Database, identity: Identity | None, wanted: ReplayRequest, caller: Caller
) -> Response[ReplayReport]:
    async def work(session: AsyncSession) -> _Started:
        started = await replay.start(session, wanted, caller.actor)
        await audit(session, caller.actor, "replay.start", str(started.id), **started.asked())
        return _Started(started.id)

    answer = await answer_once(database, identity, work, status_code=202)
    replay_id = msgspec.json.decode(answer.content, type=_Started).id
    await replay.run(database, replay_id, INLINE_SECONDS)
    async with database.read() as session:
        now = await replay.find(session, replay_id)
    report = ReplayReport(now.matched, now.created, now.skipped)
    headers = {**answer.headers, "Location": f"{Replays.path}/{replay_id}"}
    return Response(report, status_code=202, headers=headers)
