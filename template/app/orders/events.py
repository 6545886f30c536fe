"""The event types of orders. Receivers build on them: add fields, never change or remove one."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from app.observe.tracing import current_traceparent
from app.orders.money import MoneyText, show
from app.orders.tables import Order
from app.outbox.catalogue import EventType
from app.outbox.event import Event


class OrderView(Struct, frozen=True):
    """An order as the API answers it and as the `data` of its events."""

    id: UUID
    customer: str
    total: MoneyText
    status: str
    created_at: datetime

    @classmethod
    def of(cls, order: Order) -> "OrderView":
        """The view of a stored order."""
        return cls(order.id, order.customer, show(order.total), order.status, order.created_at)


_EXAMPLE = OrderView(
    id=UUID("01980000-0000-7000-8000-000000000001"),
    customer="Ada",
    total="19.90",
    status="placed",
    created_at=datetime.fromisoformat("2026-01-31T12:00:00+00:00"),
)

ORDER_CREATED = EventType("order.created", OrderView, _EXAMPLE, "An order was placed.")
ORDER_PAID = EventType(
    "order.paid",
    OrderView,
    OrderView(_EXAMPLE.id, "Ada", "19.90", "paid", _EXAMPLE.created_at),
    "An order was paid.",
)


def event_of(event_type: EventType[OrderView], order: Order) -> Event:
    """The event that tells the present state of an order."""
    return event_type.event(
        OrderView.of(order), tenant=order.tenant, traceparent=current_traceparent()
    )
