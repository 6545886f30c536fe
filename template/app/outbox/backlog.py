"""How much is owed and how much is parked, counted by the partial indexes alone."""

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.outbox.tables import DUE, ORDERED, PARKED, SUSPECT

_COUNTS = text(
    f"""SELECT (SELECT count(*) FROM outbox_messages WHERE {DUE})
 + (SELECT count(*) FROM outbox_messages WHERE {SUSPECT})
 + (SELECT count(*) FROM outbox_messages WHERE {ORDERED} AND parked_at IS NULL AND losses = 0)
 AS pending, (SELECT count(*) FROM outbox_messages WHERE {PARKED}) AS parked"""  # noqa: S608
)


class Backlog(Struct, frozen=True):
    """`pending` includes what is claimed at the moment."""

    pending: int
    parked: int


async def backlog(session: AsyncSession) -> Backlog:
    """The present numbers; cheap however many rows were ever sent."""
    row = (await session.execute(_COUNTS)).one()
    return Backlog(row.pending, row.parked)
