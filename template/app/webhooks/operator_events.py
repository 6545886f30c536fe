"""Events about endpoints, for whoever operates them: published like every other event.

They belong to the endpoint's tenant, are matched only by patterns that name them (`endpoint.*`,
never `*`), and are published in the transaction of the change that they tell. Invariant: nothing
that happens to the message of such an event publishes another, or a dead endpoint that is
subscribed to them would keep itself busy for ever.
"""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncSession

from app.outbox.catalogue import EventType
from app.outbox.parked_events import PARKED
from app.outbox.publish import publish


class EndpointState(Struct, frozen=True, kw_only=True):
    """An endpoint at the moment of the event. Its URL is left out: it may hold a token."""

    endpoint_id: UUID
    description: str
    failing_since: datetime | None = None
    reason: str | None = None


_EXAMPLE = EndpointState(
    endpoint_id=UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
    description="warehouse",
    failing_since=datetime(2026, 1, 31, 12, tzinfo=UTC),
)

FAILING = EventType(
    "endpoint.failing",
    EndpointState,
    _EXAMPLE,
    "An endpoint has answered nothing but failures for a minute or more. Told once, until it "
    "recovers.",
)
RECOVERED = EventType(
    "endpoint.recovered", EndpointState, _EXAMPLE, "An endpoint that was failing works again."
)
DISABLED = EventType(
    "endpoint.disabled",
    EndpointState,
    EndpointState(
        endpoint_id=_EXAMPLE.endpoint_id, description="warehouse", reason="it answered 410 Gone"
    ),
    "An endpoint was disabled, by a person, by its answer 410, or after failing for too long. What "
    "is pending for it parks.",
)
EVENT_TYPES = (FAILING, RECOVERED, DISABLED, PARKED)


async def tell(
    session: AsyncSession,
    event_type: EventType[EndpointState],
    row: Any,
    reason: str | None = None,
) -> None:
    """Publish what happened to the endpoint of this row, in the caller's transaction."""
    state = EndpointState(
        endpoint_id=row.id,
        description=row.description,
        failing_since=row.failing_since,
        reason=reason,
    )
    await publish(session, event_type.event(state, tenant=row.tenant))
