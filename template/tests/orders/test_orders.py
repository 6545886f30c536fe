"""Orders: the row and its events commit together, over HTTP, with the real application."""

import asyncio
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import func, select, text

from app.api.tables import idempotency_keys
from app.errors import BadRequest
from app.ids import uuid7
from app.orders import money, service
from app.orders.events import ORDER_CREATED, ORDER_PAID
from app.orders.tables import Order
from app.outbox.tables import events, outbox_messages
from tests.conftest import settings_for
from tests.support.site import Site, opened

NEW = {"customer": "Ada", "total": "19.90"}


async def event_types(site: Site) -> list[str]:
    """Types of all events, oldest first."""
    async with site.database.read() as session:
        return list(await session.scalars(select(events.c.type).order_by(events.c.id)))


async def test_an_order_is_placed_read_and_paid(site: Site):
    """The answer, the stored row and the event's data are the same order."""
    await site.endpoint("order.*")
    headers = await site.headers("admin")
    placed = await site.client.post("/orders", json=NEW, headers=headers)
    assert placed.status_code == 201
    order = placed.json()
    assert set(order) == {"id", "customer", "total", "status", "created_at"}
    assert (order["customer"], order["total"], order["status"]) == ("Ada", "19.90", "placed")
    assert order["created_at"].endswith("Z")
    path = f"/orders/{order['id']}"
    assert (await site.client.get(path, headers=headers)).json() == order
    paid = await site.client.post(f"{path}/pay", headers=headers)
    assert paid.status_code == 200
    assert paid.json() == order | {"status": "paid"}
    assert await event_types(site) == ["order.created", "order.paid"]
    assert await site.count(outbox_messages) == 3  # the endpoint's two, and the receipt
    async with site.database.read() as session:
        bodies = list(await session.scalars(select(events.c.body).order_by(events.c.id)))
    assert [msgspec.json.decode(body)["data"] for body in bodies] == [order, paid.json()]


async def test_an_order_is_paid_once(site: Site):
    """The second payment is a 409, also when both come at the same time."""
    headers = await site.headers("admin")
    order_id = (await site.client.post("/orders", json=NEW, headers=headers)).json()["id"]
    answers = await asyncio.gather(
        *(site.client.post(f"/orders/{order_id}/pay", headers=headers) for _ in range(4))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    assert await event_types(site) == ["order.created", "order.paid"]


async def test_an_order_belongs_to_the_tenant_of_the_key(site: Site):
    """So do its events; a stranger gets 404, an operator sees it."""
    acme, umbrella = await site.headers("admin", "acme"), await site.headers("admin", "umbrella")
    order_id = (await site.client.post("/orders", json=NEW, headers=acme)).json()["id"]
    path = f"/orders/{order_id}"
    operator = await site.headers("admin")
    for headers, expected in ((acme, 200), (umbrella, 404), (operator, 200)):
        assert (await site.client.get(path, headers=headers)).status_code == expected
    assert (await site.client.post(f"{path}/pay", headers=umbrella)).status_code == 404
    async with site.database.read() as session:
        assert list(await session.scalars(select(events.c.tenant))) == ["acme"]


async def test_the_same_request_twice_is_one_order(site: Site):
    """`Idempotency-Key`, for placing and for paying."""
    headers = await site.headers("admin") | {"Idempotency-Key": "order-1"}
    answers = [await site.client.post("/orders", json=NEW, headers=headers) for _ in range(2)]
    assert answers[0].content == answers[1].content
    path = f"/orders/{answers[0].json()['id']}/pay"
    paid = [await site.client.post(path, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in paid] == [200, 200]
    assert await event_types(site) == ["order.created", "order.paid"]


async def test_the_same_key_on_another_order_is_another_request(site: Site):
    """Else the second order would get the first one's answer and stay unpaid."""
    headers = await site.headers("admin")
    for _ in range(2):
        order_id = (await site.client.post("/orders", json=NEW, headers=headers)).json()["id"]
        keyed = headers | {"Idempotency-Key": "pay"}
        answer = await site.client.post(f"/orders/{order_id}/pay", headers=keyed)
        assert answer.json()["id"] == order_id
        assert answer.json()["status"] == "paid"


BAD: list[Any] = [
    {"customer": "Ada", "total": text_}
    for text_ in (
        "0",
        "0.00",
        "-1",
        "1.234",
        "1e3",
        "1,50",
        "",
        " 1",
        "1\n",
        "\u0661",
        "100000000",
        "NaN",
    )
]
BAD += [{"customer": customer, "total": "1"} for customer in ("", "  ", "x" * 201, "a\0b", 7, None)]
BAD += [{"customer": "Ada", "total": 1}, {"customer": "Ada"}, {"total": "1"}, NEW | {"x": 1}, [], 1]


async def test_a_bad_order_is_refused_and_nothing_is_stored(site: Site):
    """400 for each; no order, no event."""
    headers = await site.headers("admin")
    for body in BAD:
        answer = await site.client.post("/orders", json=body, headers=headers)
        assert answer.status_code == 400, (body, answer.text)
    assert await site.count(Order.__table__) == 0
    assert await site.count(events) == 0


@pytest.mark.parametrize(
    ("sent", "stored"), [("0.01", "0.01"), ("5", "5.00"), ("12.5", "12.50"), ("99999999.99",) * 2]
)
async def test_money_is_exact_from_the_wire_to_the_database_and_back(
    site: Site, sent: str, stored: str
):
    """Two places on the way out, cents in the database, never a float."""
    headers = await site.headers("admin")
    answer = await site.client.post("/orders", json=NEW | {"total": sent}, headers=headers)
    assert answer.json()["total"] == stored
    async with site.database.read() as session:
        cents = await session.scalar(text("SELECT total_cents FROM orders"))
        assert cents == int(Decimal(stored) * 100)
        assert await session.scalar(select(Order.total)) == Decimal(stored)
        assert await session.scalar(select(func.sum(Order.total))) == Decimal(stored)


def test_an_amount_that_is_none_is_named():
    """The error has field, value and rule."""
    with pytest.raises(BadRequest, match=r"\$\.total: '0' is not an amount"):
        money.parse("$.total", "0")


@pytest.mark.parametrize("event_type", [ORDER_CREATED, ORDER_PAID])
async def test_the_events_are_registered_and_their_data_is_checked(site: Site, event_type: Any):
    """Who publishes `order.paid` by hand has to send an order."""
    headers = await site.headers("events:write")
    example = msgspec.to_builtins(event_type.example)
    for data, expected in ((example, 201), (example | {"total": 5}, 400), ({}, 400)):
        body = {"type": event_type.name, "data": data}
        answer = await site.client.post("/api/events", json=body, headers=headers)
        assert answer.status_code == expected, answer.text


async def test_g1_an_order_whose_event_can_not_be_stored_is_not_stored(site: Site):
    """One transaction: when publish fails, the order is gone too."""
    async with site.database.transaction() as session:
        await session.execute(text("ALTER TABLE events RENAME TO events_away"))
    headers = await site.headers("admin")
    answer = await site.client.post("/orders", json=NEW, headers=headers)
    assert answer.status_code == 500
    assert await site.count(Order.__table__) == 0


async def test_g1_a_commit_that_fails_gives_5xx_and_leaves_no_order_no_event_no_message(
    postgresql_url: str,
):
    """A deferred constraint makes COMMIT itself fail; the client must not see a 201."""
    async with opened(settings_for(postgresql_url)) as site:
        await site.endpoint("order.*")
        async with site.database.transaction() as session:
            await session.execute(text("CREATE TABLE customers (name text PRIMARY KEY)"))
            await session.execute(
                text(
                    "ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers (name)"
                    " DEFERRABLE INITIALLY DEFERRED"
                )
            )
        headers = await site.headers("admin") | {"Idempotency-Key": "order-1"}
        answer = await site.client.post("/orders", json=NEW, headers=headers)
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        for table in (Order.__table__, events, outbox_messages, idempotency_keys):
            assert await site.count(table) == 0
        async with site.database.transaction() as session:
            await session.execute(text("INSERT INTO customers VALUES ('Ada')"))
        answer = await site.client.post("/orders", json=NEW, headers=headers)
        assert answer.status_code == 201
        for table in (Order.__table__, events, outbox_messages, idempotency_keys):
            assert await site.count(table) == 1


async def test_the_service_needs_nothing_but_a_session(site: Site):
    """Call it from anywhere in your code; the transaction is the caller's."""
    async with site.database.transaction() as session:
        order = await service.place(session, "acme", "Ada", Decimal("5"))
    assert isinstance(order.id, UUID)
    assert await event_types(site) == ["order.created"]


async def test_an_unknown_order_answers_404(site: Site):
    """For reading and paying."""
    headers = await site.headers("admin")
    assert (await site.client.get(f"/orders/{uuid7()}", headers=headers)).status_code == 404
    assert (await site.client.post(f"/orders/{uuid7()}/pay", headers=headers)).status_code == 404
