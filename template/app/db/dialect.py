"""What differs between SQLite and PostgreSQL: column types and the database's clock.

Invariant: every stored time is UTC and comes from the database, so that relays on several machines
agree on what is due. A caller may pass `now` instead (tests do, to move time without waiting).
Hot statements that need a form of their own for each database stand in `outbox/statements.py`.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import TIMESTAMP, LargeBinary, Uuid, literal
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import String, TypeDecorator, TypeEngine

SQLITE_NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"


def sqlite_text(moment: datetime) -> str:
    """`2026-01-31T12:00:00.123Z`: the one text form of a time on SQLite; sorts as time does."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; every time in this application is UTC")
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class UtcDateTime(TypeDecorator[datetime]):
    """timestamptz on PostgreSQL, text with milliseconds on SQLite; always aware, always UTC.

    SQLAlchemy's own DateTime stores local wall time on SQLite and gives it back without a zone.
    """

    impl = TIMESTAMP(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column type of this dialect."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(24))
        return dialect.type_descriptor(TIMESTAMP(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """An aware datetime to what the driver takes; a naive one is refused."""
        if value is None:
            return None
        if dialect.name == "sqlite":
            return sqlite_text(value)
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; every time in this application is UTC")
        return value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """What the driver gives to an aware UTC datetime."""
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(UTC)


Id = Uuid(native_uuid=True)
Bytes = LargeBinary()


class db_now(ColumnElement[datetime]):
    """The database's own clock, now; on PostgreSQL the start of the transaction."""

    inherit_cache = True
    type = UtcDateTime()


@compiles(db_now, "postgresql")
def _now_postgresql(element: db_now, compiler: Any, **kw: Any) -> str:
    return "now()"


@compiles(db_now, "sqlite")
def _now_sqlite(element: db_now, compiler: Any, **kw: Any) -> str:
    return f"({SQLITE_NOW})"


class db_now_plus(ColumnElement[datetime]):
    """The database's clock plus a number of seconds (negative for the past)."""

    inherit_cache = False
    type = UtcDateTime()

    def __init__(self, seconds: float) -> None:
        self.seconds = float(seconds)


@compiles(db_now_plus, "postgresql")
def _plus_postgresql(element: db_now_plus, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(literal(element.seconds), **kw)
    return f"now() + make_interval(secs => {seconds})"


@compiles(db_now_plus, "sqlite")
def _plus_sqlite(element: db_now_plus, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(literal(f"{element.seconds:+.3f} seconds"), **kw)
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', 'now', {seconds})"


def at(now: datetime | None) -> ColumnElement[datetime]:
    """The given instant, or the database's clock when there is none."""
    return db_now() if now is None else literal(now, UtcDateTime())
