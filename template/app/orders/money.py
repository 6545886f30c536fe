"""Money: a decimal string on the wire, an exact `Decimal` in code, whole cents in the database.

Invariant: no float anywhere. SQLite has no exact decimal column, so both databases store cents.
"""

import re
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import BigInteger
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from app.errors import BadRequest

PATTERN = r"^[0-9]{1,8}(\.[0-9]{1,2})?$"
MoneyText = Annotated[str, Meta(pattern=PATTERN, examples=["19.90"])]


class Cents(TypeDecorator[Decimal]):
    """A `Decimal` with two places, stored as a whole number of cents."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Any:
        """12.50 to 1250."""
        return None if value is None else int(value.scaleb(2))

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        """1250 to 12.50."""
        return None if value is None else Decimal(value).scaleb(-2)


def parse(name: str, text: str) -> Decimal:
    """The amount of a decimal string; raises `BadRequest` unless it is 0.01 to 99999999.99."""
    if not re.fullmatch(PATTERN.strip("^$"), text) or Decimal(text) == 0:
        raise BadRequest(
            f"{name}: {text!r} is not an amount: a decimal string from 0.01 to 99999999.99"
        )
    return Decimal(text).quantize(Decimal("0.01"))


def show(amount: Decimal) -> str:
    """`12.50`: always two places."""
    return f"{amount:.2f}"
