"""Orders and receipts: mapped classes of your own, beside the outbox in the same database."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base
from app.db.dialect import Id, UtcDateTime, db_now
from app.ids import uuid7
from app.orders.money import Cents


class Order(Base):
    """An order of a customer; `status` is `placed` or `paid`."""

    __tablename__ = "orders"

    id: Mapped[UUID] = mapped_column(Id, primary_key=True, default=uuid7)
    tenant: Mapped[str] = mapped_column(String(128))
    customer: Mapped[str] = mapped_column(String(200))
    total: Mapped[Decimal] = mapped_column("total_cents", Cents)
    status: Mapped[str] = mapped_column(String(6), default="placed")
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, server_default=db_now())


class Receipt(Base):
    """What the customer of a paid order gets; written by the handler in `receipts.py`."""

    __tablename__ = "receipts"

    order_id: Mapped[UUID] = mapped_column(Id, primary_key=True)
    text: Mapped[str] = mapped_column(String(1000))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, server_default=db_now())
