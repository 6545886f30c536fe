"""What `handlers` shows: code and database side by side; leftovers of a renamed one show too.

Invariant: it only reads.
"""

from msgspec import Struct
from sqlalchemy import func, select

from app import features
from app.cli.output import columns, print_items
from app.cli.runtime import open_database, settings_of_command
from app.handlers.registry import Handlers
from app.outbox.message import Status
from app.outbox.tables import outbox_messages
from app.outbox.views import STATUS_IS
from app.webhooks.retry import span_in_words

PREFIX = "handler:"


class HandlerShown(Struct, frozen=True, kw_only=True):
    """One handler; `known` is false for a name that only the database has."""

    name: str
    types: str | None
    retry_span: str | None
    pending: int
    parked: int
    known: bool


async def print_all(*, as_json: bool) -> None:
    """Every handler by name."""
    settings = settings_of_command()
    registered = Handlers.of((h for f in features.load() for h in f.handlers), settings)
    m = outbox_messages.c
    counts: dict[Status, dict[str, int]] = {}
    async with open_database(settings) as database, database.read() as session:
        for status in (Status.PENDING, Status.PARKED):
            query = (
                select(m.destination, func.count())
                .where(STATUS_IS[status], m.destination.startswith(PREFIX))
                .group_by(m.destination)
            )
            counts[status] = {row[0]: row[1] for row in await session.execute(query)}
    pending, parked = counts[Status.PENDING], counts[Status.PARKED]
    items = []
    for name in sorted({*registered.by_destination, *pending, *parked}):
        known = registered.by_destination.get(name)
        items.append(
            HandlerShown(
                name=name.removeprefix(PREFIX),
                types=known.pattern if known else None,
                retry_span=span_in_words(known.policy) if known else None,
                pending=pending.get(name, 0),
                parked=parked.get(name, 0),
                known=known is not None,
            )
        )
    print_items(items, columns(*HandlerShown.__struct_fields__), as_json=as_json)
