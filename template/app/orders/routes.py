"""`/orders`: HTTP in, a service call in one transaction, a view out; no rule of orders is here."""

from typing import Annotated
from uuid import UUID

from litestar import Controller, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.auth import Caller, requires
from app.api.idempotency import Identity, answer_once
from app.db.engine import Database
from app.orders import money, service
from app.orders.events import OrderView


class NewOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """An order to place."""

    customer: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")]
    total: money.MoneyText


class Orders(Controller):
    """The example feature's API."""

    path = "/orders"
    tags = ("orders",)

    @post(guards=[requires("events:write")], status_code=201, summary="Place an order")
    async def create(
        self,
        data: JSONBody[NewOrder],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        identity: NamedDependency[Identity | None],
    ) -> Response[OrderView]:
        """Store the order; `order.created` goes to whoever subscribed to it."""
        total = money.parse("$.total", data.total)

        async def work(session: AsyncSession) -> OrderView:
            tenant = caller.tenant_for(None)
            return OrderView.of(await service.place(session, tenant, data.customer, total))

        return await answer_once(database, identity, work, status_code=201)

    @get("/{order_id:uuid}", guards=[requires("read")], summary="One order")
    async def show(
        self,
        order_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
    ) -> OrderView:
        """The order as it is now."""
        async with database.read() as session:
            return OrderView.of(await service.find(session, order_id, caller.tenant))

    @post(
        "/{order_id:uuid}/pay",
        guards=[requires("events:write")],
        status_code=200,
        summary="Pay an order",
    )
    async def pay(
        self,
        order_id: FromPath[UUID],
        caller: NamedDependency[Caller],
        database: NamedDependency[Database],
        identity: NamedDependency[Identity | None],
    ) -> Response[OrderView]:
        """Mark the order as paid; 409 when it already is. `order.paid` goes to its subscribers."""

        async def work(session: AsyncSession) -> OrderView:
            return OrderView.of(await service.pay(session, order_id, caller.tenant))

        return await answer_once(database, identity, work, status_code=200)
