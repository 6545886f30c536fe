"""Where a page of messages ends, as an opaque text: what `next_cursor` says and `cursor` asks for.

Newest first is by id. Parked messages are listed by the time at which they were parked, in the
order of their index: by id, SQLite would walk every message that was ever sent. Invariant: a
position needs no row, for the message may have been retried before the next page is asked for.
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, tuple_

from app.errors import NotFound
from app.outbox.message import Status
from app.outbox.tables import outbox_messages

m = outbox_messages.c
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def order_of_list(status: Status | None) -> list[ColumnElement[Any]]:
    """The columns by which a list of this status descends; the last one is the id."""
    return [m.parked_at, m.id] if status is Status.PARKED else [m.id]


def cursor_of(row: Row[Any], status: Status | None) -> str:
    """The position of a row, as text."""
    if status is not Status.PARKED:
        return str(row.id)
    return f"{(row.parked_at - _EPOCH) // _MICROSECOND}.{row.id}"


def position_of(cursor: str, status: Status | None) -> tuple[Any, ...]:
    """The values of `order_of_list`; raises `NotFound` for what is no cursor of such a list."""
    moment, _, rest = cursor.rpartition(".")
    try:
        if status is not Status.PARKED:
            return (UUID(cursor),)
        return _EPOCH + int(moment) * _MICROSECOND, UUID(rest)
    except (ValueError, OverflowError):
        raise no_cursor(cursor) from None


def beyond(position: tuple[Any, ...], status: Status | None) -> ColumnElement[bool]:
    """What comes after the position."""
    columns = order_of_list(status)
    return tuple_(*columns) < tuple_(*position, types=[column.type for column in columns])


def no_cursor(cursor: str) -> NotFound:
    """The one answer for nonsense, for another list's cursor and for another tenant's."""
    return NotFound(f"cursor: {cursor[:80]!r} is no next_cursor of this list")
