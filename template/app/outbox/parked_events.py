"""`message.parked`: told in the transaction that parks the message: both happen or neither.

Only where somebody asked for it: a destination of the tenant whose patterns name it (`message.*`,
never `*`), or a handler. Else nothing is stored, for disabling an endpoint may park a hundred
thousand. Invariant: the parking of an operator event's own message is not told.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.outbox.catalogue import EventType
from app.outbox.event import Event
from app.outbox.message import Claim, Deferred, Delivered, Failed, ParkedReason, endpoint_id_of
from app.outbox.policy import GiveBack, Park
from app.outbox.publish import HANDLERS, publish_all
from app.outbox.settlement import storable
from app.outbox.statements import LOST_ERROR
from app.outbox.store import Reclaimed, Settlement
from app.outbox.subscriptions import candidates, is_operator_type
from app.outbox.tables import subscriptions


class ParkedMessage(Struct, frozen=True, kw_only=True):
    """A message that waits for a person now."""

    message_id: UUID
    event_id: UUID
    type: str
    destination: str
    endpoint_id: UUID | None
    reason: ParkedReason
    error: str | None
    attempts: int


PARKED = EventType(
    "message.parked",
    ParkedMessage,
    ParkedMessage(
        message_id=UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
        event_id=UUID("01890a5d-ac96-774b-bcce-b302099a8058"),
        type="order.paid",
        destination="webhook:01890a5d-ac96-774b-bcce-b302099a8059",
        endpoint_id=UUID("01890a5d-ac96-774b-bcce-b302099a8059"),
        reason=ParkedReason.REJECTED,
        error="answered 404 Not Found",
        attempts=1,
    ),
    "The relay has parked a message: it waits for a person. Only for subscriptions that name it.",
)


def parked_events(batch: Sequence[Settlement]) -> dict[UUID, Event]:
    """What there is to tell if these are written, by message."""
    found = {}
    for settlement in batch:
        match settlement.transition:
            case Park(reason) | GiveBack(_, ParkedReason() as reason):
                claim = settlement.result.claim
                if not is_operator_type(claim.type):
                    found[claim.message_id] = _event(settlement, reason)
    return found


def _event(settlement: Settlement, reason: ParkedReason) -> Event:
    claim, outcome = settlement.result.claim, settlement.result.outcome
    match outcome:
        case Failed(error=error):
            return _told(claim, reason, storable(error), claim.attempt)
        case Deferred(reason=error):
            return _told(claim, reason, storable(error), claim.attempt - 1)
        case Delivered():
            return _told(claim, reason, None, claim.attempt)


def crashed_events(reclaimed: Iterable[Reclaimed]) -> list[Event]:
    """What there is to tell of messages that a claim has parked."""
    return [
        _told(lost, ParkedReason.CRASHED, LOST_ERROR, lost.attempt)
        for lost in reclaimed
        if lost.parked and not is_operator_type(lost.type)
    ]


def _told(
    claim: Claim | Reclaimed, reason: ParkedReason, error: str | None, attempts: int
) -> Event:
    message = ParkedMessage(
        message_id=claim.message_id,
        event_id=claim.event_id,
        type=claim.type,
        destination=claim.destination,
        endpoint_id=endpoint_id_of(claim.destination),
        reason=reason,
        error=error,
        attempts=attempts,
    )
    return PARKED.event(message, tenant=claim.tenant)


async def tell_parked(session: AsyncSession, told: Iterable[Event]) -> None:
    """Publish them for the tenants that have asked."""
    told, patterns = list(told), candidates(PARKED.name)
    if not told:
        return
    if not any(pattern in session.info.get(HANDLERS, {}) for pattern in patterns):
        s = subscriptions.c
        tenants = {event.tenant for event in told}
        query = select(s.tenant).where(s.pattern.in_(patterns), s.tenant.in_(tenants)).distinct()
        asking = set((await session.execute(query)).scalars())
        told = [event for event in told if event.tenant in asking]
    await publish_all(session, told)
