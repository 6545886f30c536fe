"""The receipt of a paid order: an example of a handler, for work of your own beside webhooks.

    order.paid --committed with the order--> message handler:receipt --relay--> write_receipt

Invariant: a handler may be called twice for one message, so what it does must come out the same.
Here the order's id is the key of the receipt. Where the work is a call to another system, give it
`received.message_id` as its idempotency key, and make it while no transaction is open.
"""

from app.handlers.handler import Received, handler
from app.orders.events import ORDER_PAID, OrderView
from app.orders.tables import Receipt


@handler("receipt", ORDER_PAID)
async def write_receipt(received: Received[OrderView]) -> None:
    """Raising instead of returning would have it called again, by the retry policy."""
    order = received.data
    text = f"Receipt of {received.occurred_at:%Y-%m-%d} for {order.customer}: {order.total}"
    async with received.database.transaction() as session:
        if await session.get(Receipt, order.id) is None:
            session.add(Receipt(order_id=order.id, text=text))
