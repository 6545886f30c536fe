"""Messages of events with an ordering key: stored, with their sequence, immediately before COMMIT.

    publish -> owe() collects -> business code goes on -> store_owed() -> COMMIT

Invariant: sequence order is commit order, for each (destination, key), and a rollback burns none.
That takes a lock from the count to COMMIT, so one key has one commit at a time; hence as late as
possible, for all keys of the transaction at once. Every keyed message gets a sequence, whatever its
destination's policy is now, so that the policy can be changed later; see `ordering.py`.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from app.db.dialect import sqlite_text
from app.db.engine import BEFORE_COMMIT
from app.outbox import statements_sequences as sql

_OWED = "app.owed"  # key of `session.info`


class Owed(Struct, frozen=True):
    """A message to be stored; None: due at once. Its key is its event's."""

    event_id: UUID
    destination: str
    available_at: datetime | None


def owe(session: AsyncSession, owed: Iterable[Owed]) -> None:
    """Have these stored before COMMIT, in this order within each key."""
    session.info.setdefault(_OWED, []).extend(owed)
    session.info.setdefault(BEFORE_COMMIT, {})[store_owed] = None


def store_owed(session: Session) -> None:
    """Store what is owed so far. Nothing but COMMIT should follow: keys are locked from now on."""
    owed: list[Owed] = session.info.pop(_OWED, [])
    if not owed:
        return
    if session.get_bind().dialect.name == "sqlite":
        due = [sqlite_text(one.available_at) if one.available_at else None for one in owed]
        rows = [(o.event_id.hex, o.destination, at) for o, at in zip(owed, due, strict=True)]
        values = {"owed": msgspec.json.encode(rows).decode()}
        session.execute(sql.COUNT_SQLITE, values)
        session.execute(sql.STORE_SQLITE, values)
        return
    names = sorted({one.destination for one in owed})
    session.execute(sql.LOCK_SHARED, {"destinations": names})
    session.execute(
        sql.STORE_POSTGRESQL,
        {
            "event_ids": [one.event_id for one in owed],
            "destinations": [one.destination for one in owed],
            "available_at": [one.available_at for one in owed],
        },
    )
