"""The receipt: the example of a handler, from the request to the handler's own row."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import func, select

from app.orders.tables import Receipt
from app.outbox.tables import events, outbox_messages
from tests.support.site import Site, opened, until


@pytest.fixture
async def relaying(settings) -> AsyncIterator[Site]:
    async with opened(settings, with_relay=True) as site:
        yield site


async def test_a_paid_order_gets_its_receipt(relaying: Site):
    """Soon after the payment, once, and the message that brought it stays as any other."""
    headers = await relaying.headers("admin")
    placed = await relaying.client.post(
        "/orders", json={"customer": "Ada", "total": "19.90"}, headers=headers
    )
    order_id = placed.json()["id"]
    assert (
        await relaying.client.post(f"/orders/{order_id}/pay", headers=headers)
    ).status_code == 200

    async def written() -> bool:
        return await relaying.count(Receipt.__table__) == 1

    await until(written)
    async with relaying.database.read() as session:
        receipt = (await session.scalars(select(Receipt))).one()
        assert str(receipt.order_id) == order_id
        assert receipt.text.endswith("for Ada: 19.90")
        kept = select(func.count()).select_from(outbox_messages.join(events))
        assert await session.scalar(kept.where(events.c.type == "order.paid")) == 1
