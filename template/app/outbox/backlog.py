"""How much is owed and how much is parked, found by the partial indexes alone."""

from msgspec import Struct
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import db_now
from app.outbox.lines import lines
from app.outbox.tables import DUE, ORDERED, PARKED, SUSPECT, outbox_messages

_COUNTS = text(
    f"""SELECT (SELECT count(*) FROM outbox_messages WHERE {DUE})
 + (SELECT count(*) FROM outbox_messages WHERE {SUSPECT})
 + (SELECT count(*) FROM outbox_messages WHERE {ORDERED} AND parked_at IS NULL AND losses = 0)
 AS pending, (SELECT count(*) FROM outbox_messages WHERE {PARKED}) AS parked,
 (SELECT count(*) FROM replays WHERE finished_at IS NULL) AS replays"""  # noqa: S608
)
_FIRST_DUE = [
    select(func.min(outbox_messages.c.available_at)).where(text(lane)).scalar_subquery()
    for lane in (DUE, SUSPECT)
]


class Backlog(Struct, frozen=True):
    """`pending` includes what is claimed at the moment."""

    pending: int
    parked: int
    replays: int  # not finished
    blocked_keys: int  # strict ordering keys that wait for a parked message
    oldest_due_seconds: float  # how long the message that is due longest has been due


async def backlog(session: AsyncSession) -> Backlog:
    """The present numbers; cheap however many rows were ever sent."""
    row = (await session.execute(_COUNTS)).one()
    now, *times = (await session.execute(select(db_now(), *_FIRST_DUE))).one()
    in_order = await lines(session)
    times.append(in_order.first_due)
    waits = [(now - first_due).total_seconds() for first_due in times if first_due is not None]
    oldest = max([0.0, *waits])
    return Backlog(row.pending, row.parked, row.replays, in_order.blocked, oldest)
