"""Replay: events of the past go out again, as new messages under new `webhook-id`s.

    start: the row in `replays`  -->  step, step, ...  -->  finished, with an audit entry
    (and the caller's audit entry)    each one transaction: the messages of some events,
                                      and in the same COMMIT how far the replay is

Invariants: a replay interrupted anywhere goes on where it was and makes no message twice. Whoever
started it steps first; every relay takes up what was left. No step is large, however long the range
is. The messages are due one after the other, `per_second` of them. What is left out is counted as
skipped: a message still pending, an endpoint not enabled, an erased body. Where to change what: who
is chosen is `replay_scan.py`'s.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import JSON, Row, Select, column, func, insert, select, table, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import Id, db_now
from app.db.engine import DESTINATIONS, Database
from app.errors import Conflict
from app.ids import uuid7
from app.outbox.endpoint_states import ENABLED, endpoint_states, require_endpoint
from app.outbox.erasure import park_erased
from app.outbox.message import webhook_destination
from app.outbox.replay_scan import Chosen, ReplayRequest, Scan, checked, scan
from app.outbox.replay_views import COLUMNS, Replay, ReplayReport, find, recent
from app.outbox.sequences import Owed, owe, store_owed
from app.outbox.tables import events, outbox_messages, replays

__all__ = [
    "Replay", "ReplayReport", "ReplayRequest", "dry_run", "find", "recent", "run", "start", "step",
]  # fmt: skip

r = replays.c

# `app.api`, which has the audit log, stands above the outbox and can't be imported here.
_audit = table(
    "audit_log", column("id", Id), column("actor"), column("action"), column("target"),
    column("detail", JSON),
)  # fmt: skip


async def start(session: AsyncSession, wanted: ReplayRequest, actor: str) -> Replay:
    """Store a replay, which `run` or a relay then carries out. Never commits; the caller audits.

    Raises `BadRequest`; `NotFound` or `Conflict` for an endpoint that can't get anything.
    """
    wanted = await _possible(session, wanted)
    replay_id = uuid7()
    await session.execute(
        insert(replays).values(id=replay_id, actor=actor[:200], **msgspec.structs.asdict(wanted))
    )
    return await find(session, replay_id)


async def dry_run(database: Database, wanted: ReplayRequest) -> ReplayReport:
    """What a replay would find now: the same steps, only read."""
    async with database.read() as session:
        wanted = await _possible(session, wanted)
    matched = skipped = 0
    after: UUID | None = None
    while True:
        async with database.read() as session:
            found = await scan(session, wanted, after)
        matched, skipped = matched + found.matched, skipped + found.skipped
        after = found.last
        if after is None:
            return ReplayReport(matched, 0, skipped)


async def run(database: Database, replay_id: UUID, seconds: float | None = None) -> None:
    """Step until the replay is finished, or until so many seconds are over."""
    end = None if seconds is None else time.monotonic() + seconds
    while await step(database, replay_id):
        if end is not None and time.monotonic() >= end:
            return


async def step(database: Database, replay_id: UUID | None = None) -> bool:
    """One transaction of a replay; None: of one that nobody is stepping. False: nothing left."""
    query: Select[Any] = select(*COLUMNS, r.last_event_id, r.paced_until).where(
        r.finished_at.is_(None)
    )
    if replay_id is None:
        query = query.order_by(r.id).limit(1).with_for_update(skip_locked=True)
    else:
        query = query.where(r.id == replay_id).with_for_update()
    async with database.transaction() as session:
        row = (await session.execute(query)).one_or_none()
        if row is None:
            return False
        wanted = ReplayRequest(**{n: getattr(row, n) for n in ReplayRequest.__struct_fields__})
        found = await scan(session, wanted, row.last_event_id)
        now = (await session.execute(select(db_now()))).scalar_one()
        paced_until = await _store(session, found.chosen, row, now)
        await _advance(session, row, found, paced_until, now)
    return found.last is not None or replay_id is None


async def _store(
    session: AsyncSession, chosen: Sequence[Chosen], row: Row[Any], now: datetime
) -> datetime | None:
    """Add the messages, each due a little after the one before; when the next one would be."""
    first: datetime = max(now, row.paced_until or now)
    due = [first + timedelta(seconds=n / row.per_second) for n in range(len(chosen) + 1)]
    owed = [Owed(o.event_id, o.destination, at) for o, at in zip(chosen, due, strict=False)]
    keyed = await _keyed(session, {one.event_id for one in chosen})
    values = [
        {"id": uuid7(), "event_id": one.event_id, "destination": one.destination,
         "available_at": one.available_at, "ladder_started_at": one.available_at}
        for one in owed if one.event_id not in keyed
    ]  # fmt: skip
    if values:
        await session.execute(insert(outbox_messages), values)
    if chosen:
        owe(session, await _as_before(session, [o for o in owed if o.event_id in keyed]))
        await session.run_sync(store_owed)  # now, so that what was erased meanwhile is parked
        await park_erased(session, {one.event_id for one in chosen})
        session.info.setdefault(DESTINATIONS, set()).update(one.destination for one in chosen)
    return due[-1]


async def _keyed(session: AsyncSession, event_ids: set[UUID]) -> set[UUID]:
    """Those with an ordering key: they are replayed in order, behind what is owed already."""
    query = select(events.c.id).where(
        events.c.id.in_(event_ids), events.c.ordering_key.is_not(None)
    )
    return set((await session.execute(query)).scalars())


async def _as_before(session: AsyncSession, owed: Sequence[Owed]) -> list[Owed]:
    """In the order in which they were first sent; the ids of events tell it to a millisecond."""
    m = outbox_messages.c
    query = select(m.event_id, m.destination, func.min(m.sequence)).where(
        m.event_id.in_({one.event_id for one in owed}), m.sequence.is_not(None)
    )
    rows = (await session.execute(query.group_by(m.event_id, m.destination))).all()
    own = {(event_id, destination): place for event_id, destination, place in rows}
    any_ = {event_id: place for event_id, _, place in rows}
    return sorted(owed, key=lambda o: own.get((o.event_id, o.destination), any_.get(o.event_id, 0)))


async def _advance(
    session: AsyncSession, row: Row[Any], found: Scan, paced_until: datetime | None, now: datetime
) -> None:
    counts = {
        "matched": row.matched + found.matched,
        "created": row.created + len(found.chosen),
        "skipped": row.skipped + found.skipped,
    }
    done = {"finished_at": now} if found.last is None else {"last_event_id": found.last}
    await session.execute(
        update(replays).where(r.id == row.id).values(**counts, **done, paced_until=paced_until)
    )
    if found.last is None:
        entry = {"id": uuid7(), "actor": row.actor, "action": "replay.finish"}
        await session.execute(insert(_audit).values(**entry, target=str(row.id), detail=counts))


async def _possible(session: AsyncSession, wanted: ReplayRequest) -> ReplayRequest:
    wanted = await checked(session, wanted)
    if wanted.endpoint_id is not None:
        await require_endpoint(session, wanted.endpoint_id)
        destination = webhook_destination(wanted.endpoint_id)
        state = (await endpoint_states(session, [destination]))[destination]
        if state != ENABLED:
            raise Conflict(f"endpoint {wanted.endpoint_id} is {state}: it can't get anything")
    return wanted
