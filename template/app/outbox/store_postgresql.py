"""The relay's half on PostgreSQL: one statement each, on four connections of its own.

Claims and upkeep (extension, scan, release) each have a connection, settlements two, so that a slow
one never holds up another, above all not the extension of leases.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from app.db.engine import Database
from app.outbox import statements_postgresql as sql
from app.outbox.driver import Link, Links, fetch_in
from app.outbox.message import Claim
from app.outbox.ordered import Picked
from app.outbox.parked_events import crashed_events, parked_events, tell_parked
from app.outbox.settlement import Row, row_of
from app.outbox.store import Claimed, Due, Reclaimed, Settlement, Wanted


class PostgresqlBackend:
    """See `Store` for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._database, self._lease = database, database.settings.lease_seconds
        self._claims = Link(database, "relay claims")
        self._settles = Links(database, "relay settles")
        self._upkeep = Link(database, "relay upkeep")

    async def claim(self, wanted: Sequence[Wanted], limit: int, now: datetime | None) -> Claimed:
        """One statement for all destinations."""
        token, before = uuid4(), time.monotonic()
        destinations = [w.destination for w in wanted]
        slots, floors = [w.slots for w in wanted], [w.floor for w in wanted]
        rows = await self._claims.fetch(
            sql.CLAIM, destinations, slots, floors, token, self._lease, now, limit
        )
        return claimed(rows, token, before)

    async def claim_ordered(
        self,
        wanted: Sequence[Wanted],
        after: Sequence[str],
        probes: int,
        limit: int,
        now: datetime | None,
    ) -> tuple[Claimed, list[Picked]]:
        """Two statements: which may go, and taking those that nobody took meanwhile."""
        names, slots = [w.destination for w in wanted], [w.slots for w in wanted]
        rows = await self._claims.fetch(sql.PICK_ORDERED, names, slots, list(after), now, probes)
        picked = [Picked(**dict(row)) for row in rows]
        ids = [one.id for one in picked if one.id is not None][:limit]
        if not ids:
            return Claimed([], [], {}), picked
        token, before = uuid4(), time.monotonic()
        rows = await self._claims.fetch(sql.CLAIM_ORDERED, token, self._lease, now, ids)
        return claimed(rows, token, before), picked

    async def ordered_destinations(self) -> list[str]:
        """By a skip scan."""
        rows = await self._upkeep.fetch(sql.ORDERED_DESTINATIONS)
        return [row["destination"] for row in rows]

    async def claim_lone(
        self, now: datetime | None, again: bool | None, busy: Sequence[str]
    ) -> Claimed:
        """The suspect that has been due longest. One that has to be parked comes last and is told,
        which takes a transaction.
        """
        token, before = uuid4(), time.monotonic()
        values = token, self._lease, now, again, list(busy)
        found = claimed(await self._claims.fetch(sql.CLAIM_LONE, *values, False), token, before)
        if found.claims or found.reclaimed or not await self._claims.fetch(sql.CRASHED, now):
            return found
        async with asyncio.timeout(self._lease / 2), self._database.transaction() as session:
            found = claimed(await fetch_in(session, sql.CLAIM_LONE, *values, True), token, before)
            await tell_parked(session, crashed_events(found.reclaimed))
        return found

    async def set_alone(self, claim: Claim, alone: bool) -> bool:
        """One statement."""
        return bool(await self._ids(self._upkeep, sql.ALONE, *_held([claim]), alone))

    async def settle(self, batch: Sequence[Settlement], now: datetime | None) -> set[UUID]:
        """One statement: guard, update, log. Parked ones are told in its transaction."""
        try:
            return await self._settle(batch, now, sql.SETTLE)
        except asyncpg.UniqueViolationError:
            return await self._settle(batch, now, sql.SETTLE_LOGGED)

    async def _settle(
        self, batch: Sequence[Settlement], now: datetime | None, statement: str
    ) -> set[UUID]:
        columns = [_column(values) for values in zip(*map(row_of, batch), strict=True)]
        told = parked_events(batch)
        if not told:
            return await self._ids(self._settles, statement, now, *columns)
        async with asyncio.timeout(self._lease / 2), self._database.transaction() as session:
            rows = await fetch_in(session, statement, now, *columns)
            written = {row["id"] for row in rows}
            await tell_parked(session, [told[i] for i in written if i in told])
        return written

    async def extend(self, claims: Sequence[Claim], now: datetime | None) -> set[UUID]:
        """One statement, which locks in the same order as settle."""
        return await self._ids(self._upkeep, sql.EXTEND, *_held(claims), self._lease, now)

    async def release(self, claims: Sequence[Claim]) -> set[UUID]:
        """One statement, which locks in the same order as settle."""
        return await self._ids(self._upkeep, sql.RELEASE, *_held(claims))

    async def settled_before(self, claims: Sequence[Claim]) -> set[UUID]:
        """Found in the log of attempts."""
        ids, numbers = [c.message_id for c in claims], [c.attempt for c in claims]
        return await self._ids(self._settles, sql.SETTLED_BEFORE, ids, numbers)

    async def due(self, now: datetime | None) -> list[Due]:
        """By a skip scan."""
        rows = await self._upkeep.fetch(sql.DUE_SCAN, now)
        return [Due(row["destination"], row["in_seconds"], row["tenant"]) for row in rows]

    async def warm(self) -> None:
        """Settle and claim what can't be there: it is looked up, so all that needs is loaded."""
        others = [None] * (len(Row._fields) - 2)
        await self._settles.fetch_on_each(sql.SETTLE, None, [uuid4()], [uuid4()], *others)
        await self._claims.fetch(sql.CLAIM, [""], [1], [None], uuid4(), self._lease, None, 1)

    async def close(self) -> None:
        """Close the connections."""
        for link in (self._claims, self._settles, self._upkeep):
            await link.close()

    async def _ids(self, link: Link | Links, statement: str, *arguments: Any) -> set[UUID]:
        return {row["id"] for row in await link.fetch(statement, *arguments)}


def _held(claims: Sequence[Claim]) -> tuple[list[UUID], list[UUID]]:
    return [claim.message_id for claim in claims], [claim.token for claim in claims]


_DUE = itemgetter(12, 0)  # available_at and id


def _column(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """An array for the statement; nothing at all where nothing is in it, which is most of them."""
    return None if values.count(None) == len(values) else values


def claimed(rows: Iterable[Sequence[Any]], token: UUID, before: float) -> Claimed:
    """The rows of a claim statement as claims, oldest due first, and the reclaimed ones."""
    claims: list[Claim] = []
    reclaimed: list[Reclaimed] = []
    floors: dict[str, datetime] = {}
    for (
        message_id, event_id, kind, tenant, destination, number, ladder_start, age, body,
        traceparent, losses, sequence, available_at, lost, parked,
    ) in sorted(rows, key=_DUE):  # fmt: skip
        if lost:
            reclaimed.append(
                Reclaimed(message_id, destination, number, bool(parked), event_id, kind, tenant)
            )
            continue
        floors[destination] = available_at
        claims.append(
            Claim(
                message_id, event_id, kind, tenant, destination, token, number, ladder_start, age,
                body, traceparent, losses, before, sequence,
            )
        )  # fmt: skip
    return Claimed(claims, reclaimed, floors)
