"""Orders: the example of how your own code uses the outbox.

    async with database.transaction() as session:
        order = await place(session, ...)     # the row and its event, or neither

Invariant: each function changes the business row *and* publishes what happened, through the same
session; the caller's transaction commits both. Nothing here sends anything, so nothing can have
been sent for an order that was rolled back.
"""

from decimal import Decimal
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.errors import Conflict, NotFound
from app.orders.events import ORDER_CREATED, ORDER_PAID, event_of
from app.orders.tables import Order
from app.outbox.publish import publish


async def place(session: AsyncSession, tenant: str, customer: str, total: Decimal) -> Order:
    """A new order; publishes `order.created`. Never commits."""
    order = Order(tenant=tenant, customer=customer, total=total)
    session.add(order)
    await session.flush()
    await publish(session, event_of(ORDER_CREATED, order))
    return order


async def find(
    session: AsyncSession, order_id: UUID, tenant: str | None, *, lock: bool = False
) -> Order:
    """The order of that tenant (None: of any); `lock` it to change it. Raises `NotFound`."""
    query = select(Order).where(Order.id == order_id)
    if tenant is not None:
        query = query.where(Order.tenant == tenant)
    if lock:
        query = query.with_for_update()
    order = (await session.execute(query)).scalar_one_or_none()
    if order is None:
        raise NotFound(f"there is no order {order_id}")
    return order


async def pay(session: AsyncSession, order_id: UUID, tenant: str | None) -> Order:
    """Mark the order as paid; publishes `order.paid`. Never commits.

    Raises `Conflict` when it is paid already: of two payments at the same time, one wins.
    """
    order = await find(session, order_id, tenant, lock=True)
    if order.status == "paid":
        raise Conflict(f"order {order_id} is paid already")
    order.status = "paid"
    await session.flush()
    await publish(session, event_of(ORDER_PAID, order))
    return order
