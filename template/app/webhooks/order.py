"""The fields `ordering` and `gap_seconds` of an endpoint; the outbox keeps them, see `ordering.py`.

Invariant: a gap is stored only where it means something, so what an endpoint shows is what is done.
"""

from msgspec import UNSET, UnsetType
from sqlalchemy.ext.asyncio import AsyncSession

from app.errors import BadRequest
from app.outbox.message import Ordering
from app.outbox.ordering import GAP_SECONDS, Order, order_of, set_order

LONGEST_GAP_SECONDS = 7 * 86_400.0


async def change_order(
    session: AsyncSession,
    destination: str,
    ordering: Ordering | UnsetType = UNSET,
    gap_seconds: float | UnsetType | None = UNSET,
) -> None:
    """Change what is given; null: the default gap. Raises `BadRequest` naming the field."""
    if ordering is UNSET and gap_seconds is UNSET:
        return
    present = (await order_of(session, [destination]))[destination]
    wanted = present.ordering if isinstance(ordering, UnsetType) else ordering
    if isinstance(gap_seconds, float | int):
        _check_gap(gap_seconds, wanted)
        gap = float(gap_seconds)
    else:
        gap = present.gap_seconds if gap_seconds is UNSET else GAP_SECONDS
    order = Order(wanted, gap if wanted is Ordering.YIELD else GAP_SECONDS)
    if order != present:
        await set_order(session, destination, order)


def _check_gap(seconds: float, ordering: Ordering) -> None:
    if not 0 < seconds <= LONGEST_GAP_SECONDS:
        raise BadRequest(
            f"gap_seconds: {seconds:g}; above 0 and at most {LONGEST_GAP_SECONDS:g} is allowed"
        )
    if ordering is not Ordering.YIELD:
        raise BadRequest(
            f"gap_seconds: with ordering {ordering.value!r} nothing waits for a time",
            hint='set "ordering": "yield"',
        )
