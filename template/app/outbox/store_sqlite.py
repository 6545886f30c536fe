"""The relay's half on SQLite: on the one writer connection, each call one transaction.

Callers wait for it like everybody else, so nothing here waits for anything but the disk. Ids cross
the driver as 32 hexadecimal digits.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec
from sqlalchemy import CursorResult, TextClause, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.dialect import sqlite_text
from app.db.engine import Database
from app.outbox import statements_sqlite as sql
from app.outbox.message import Claim
from app.outbox.ordered import Picked, picked_from
from app.outbox.parked_events import crashed_events, parked_events, tell_parked
from app.outbox.settlement import Row, row_of
from app.outbox.store import Claimed, Due, Settlement, Wanted
from app.outbox.store_postgresql import claimed
from app.outbox.tables import attempts, orderings


class SqliteBackend:
    """See `Store` for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lease = f"+{database.settings.lease_seconds:.3f} seconds"

    async def claim(self, wanted: Sequence[Wanted], limit: int, now: datetime | None) -> Claimed:
        """One statement for each number of slots."""
        token, before = uuid4(), time.monotonic()
        groups: defaultdict[int, list[str]] = defaultdict(list)
        for each in wanted:
            groups[each.slots].append(each.destination)
        values = self._claim_values(token, now)
        ids: list[str] = []
        async with self._database.writer.begin() as connection:
            for slots, destinations in groups.items():
                left = limit - len(ids)
                chosen = {"destinations": _json(destinations), "slots": slots, "left": left}
                ids += (await connection.execute(sql.CLAIM, values | chosen)).scalars()
            return await self._taken(connection, ids, token, before, now)

    async def claim_ordered(
        self,
        wanted: Sequence[Wanted],
        after: Sequence[str],
        probes: int,
        limit: int,
        now: datetime | None,
    ) -> tuple[Claimed, list[Picked]]:
        """One look for each destination, and one statement that takes."""
        token, before = uuid4(), time.monotonic()
        async with self._database.writer.begin() as connection:
            policies = {row[0]: row for row in await connection.execute(select(orderings))}
            picked: list[Picked] = []
            for each, key in zip(wanted, after, strict=True):
                name = each.destination
                _, policy, gap = policies.get(name, (name, "strict", 0.0))
                chosen = {"destination": name, "slots": each.slots, "after": key, "now": _now(now)}
                rows = await connection.execute(
                    sql.PICK_ORDERED, chosen | {"policy": policy, "gap": gap, "probes": probes}
                )
                picked += [picked_from(name, policy, row) for row in rows.mappings()]
            ids = [one.id.hex for one in picked if one.id is not None][:limit]
            values = self._claim_values(token, now) | {"ids": _json(ids)}
            taken = (await connection.execute(sql.CLAIM_ORDERED, values)).scalars() if ids else ()
            return await self._taken(connection, list(taken), token, before, now), picked

    async def ordered_destinations(self) -> list[str]:
        """By a skip scan, on a reading connection."""
        async with self._database.reader.connect() as connection:
            return list((await connection.execute(sql.ORDERED_DESTINATIONS)).scalars())

    async def claim_lone(
        self, now: datetime | None, again: bool | None, busy: Sequence[str]
    ) -> Claimed:
        """The suspect that has been due longest; one that is parked is told."""
        token, before = uuid4(), time.monotonic()
        values = self._claim_values(token, now) | {"again": again, "busy": _json(list(busy))}
        async with self._database.transaction() as session:
            connection = await session.connection()
            ids = list((await connection.execute(sql.CLAIM_LONE, values)).scalars())
            found = await self._taken(connection, ids, token, before, now)
            await tell_parked(session, crashed_events(found.reclaimed))
        return found

    async def set_alone(self, claim: Claim, alone: bool) -> bool:
        """One statement."""
        return bool(await self._held(sql.ALONE, [claim], {"alone": alone}))

    def _claim_values(self, token: UUID, now: datetime | None) -> dict[str, object]:
        return {"token": token.hex, "lease": self._lease, "now": _now(now)}

    async def _taken(
        self,
        connection: AsyncConnection,
        ids: list[str],
        token: UUID,
        before: float,
        now: datetime | None,
    ) -> Claimed:
        if not ids:
            return Claimed([], [], {})
        values = {"ids": _json(ids), "now": _now(now)}
        found = claimed(map(_typed, await connection.execute(sql.TAKEN, values)), token, before)
        if found.reclaimed:
            await connection.execute(sql.LOG_LOST, values)
        return found

    async def settle(self, batch: Sequence[Settlement], now: datetime | None) -> set[UUID]:
        """Guard and update, log and tell of what was written, in one transaction."""
        rows, told = {row.id: row for row in map(row_of, batch)}, parked_events(batch)
        if not told:
            async with self._database.writer.begin() as connection:
                return await _settle(connection, rows, now)
        async with self._database.transaction() as session:
            written = await _settle(await session.connection(), rows, now)
            await tell_parked(session, [told[i] for i in written if i in told])
        return written

    async def extend(self, claims: Sequence[Claim], now: datetime | None) -> set[UUID]:
        """One statement."""
        return await self._held(sql.EXTEND, claims, {"lease": self._lease, "now": _now(now)})

    async def release(self, claims: Sequence[Claim]) -> set[UUID]:
        """One statement."""
        return await self._held(sql.RELEASE, claims, {})

    async def _held(
        self, statement: TextClause, claims: Sequence[Claim], values: Mapping[str, object]
    ) -> set[UUID]:
        rows = _json([(claim.message_id.hex, claim.token.hex) for claim in claims])
        async with self._database.writer.begin() as connection:
            return _ids(await connection.execute(statement, {**values, "rows": rows}))

    async def settled_before(self, claims: Sequence[Claim]) -> set[UUID]:
        """Found in the log of attempts."""
        log = attempts.c
        query = select(log.message_id, log.number).where(
            log.message_id.in_([claim.message_id for claim in claims]), log.outcome != "lost"
        )
        async with self._database.reader.connect() as connection:
            found = {(row.message_id, row.number) for row in await connection.execute(query)}
        return {c.message_id for c in claims if (c.message_id, c.attempt) in found}

    async def due(self, now: datetime | None) -> list[Due]:
        """By a skip scan, on a reading connection."""
        async with self._database.reader.connect() as connection:
            rows = await connection.execute(sql.DUE_SCAN, {"now": _now(now)})
            return [Due(row.destination, row.in_seconds, row.tenant) for row in rows]

    async def warm(self) -> None:
        """The connections are the application's."""

    async def close(self) -> None:
        """They stay open."""


async def _settle(
    connection: AsyncConnection, rows: dict[UUID, Row], now: datetime | None
) -> set[UUID]:
    changes = _json([(row.id.hex, row.token.hex, *row[2:6]) for row in rows.values()])
    written = _ids(await connection.execute(sql.SETTLE, {"rows": changes, "now": _now(now)}))
    if lines := [_line(rows[i], now) for i in written if rows[i].outcome is not None]:
        await connection.execute(sql.LOG, lines)
    return written


def _now(now: datetime | None) -> str:
    return "now" if now is None else sqlite_text(now)


def _json(values: object) -> str:
    return msgspec.json.encode(values).decode()


def _ids(result: CursorResult[Any]) -> set[UUID]:
    return {UUID(text) for text in result.scalars()}


def _typed(row: Sequence[Any]) -> Sequence[Any]:
    message_id, event_id, *middle, due, lost, parked = row
    return UUID(message_id), UUID(event_id), *middle, datetime.fromisoformat(due), lost, parked


def _line(row: Row, now: datetime | None) -> dict[str, object]:
    return row._asdict() | {
        "id": row.id.hex,
        "now": _now(now),
        "started": f"-{row.started_ago:.3f} seconds",
    }
