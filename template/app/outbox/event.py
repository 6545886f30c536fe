"""An event before it is stored, and the exact bytes that every receiver of it gets.

Invariant: the body is encoded once, here; what is stored is what is signed and sent, byte for
byte, on every attempt. Whatever can't be JSON is refused at publish with the path of the value,
because an event that fails later could only be parked. Limits are the constants below.
"""

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from app.errors import BadRequest, TooLarge

BODY_LIMIT_BYTES = 262_144
DEPTH_LIMIT = 64
TYPE_LENGTH = 128
TYPE = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
TEXT_LIMITS = {"tenant": 128, "ordering_key": 255, "traceparent": 64}
SHOWN = 80  # characters of a refused value that the error repeats

_encoder = msgspec.json.Encoder(decimal_format="string")


class Event(Struct, frozen=True, kw_only=True):
    """A fact that the application announces. `data` is anything JSON can say."""

    type: str
    data: Any
    tenant: str = ""
    ordering_key: str | None = None
    occurred_at: datetime | None = None  # None: now
    available_at: datetime | None = None  # None: at once; else not delivered before
    traceparent: str | None = None


class Published(Struct, frozen=True):
    """What publish stored: the event, and how many messages it owes."""

    event_id: UUID
    messages: int


class _Body(Struct, frozen=True):
    type: str
    timestamp: datetime
    data: Any


def check_type(text: str) -> str:
    """The event type, if it is well-formed; raises `BadRequest` with the rule."""
    if len(text) > TYPE_LENGTH or not TYPE.fullmatch(text):
        raise BadRequest(
            f"type: {text[:SHOWN]!r} is not an event type: words of letters, digits and _ joined "
            f"by dots, at most {TYPE_LENGTH} characters",
            hint="for example order.paid",
        )
    return text


def encode_body(event: Event, occurred_at: datetime, limit: int = BODY_LIMIT_BYTES) -> bytes:
    """The bytes `{"type","timestamp","data"}`; raises `BadRequest` or `TooLarge`."""
    check_type(event.type)
    for name, length in TEXT_LIMITS.items():
        check_text(name, getattr(event, name), length)
    if event.ordering_key == "":
        raise BadRequest("ordering_key: '' orders nothing; leave it out instead")
    utc_time("available_at", event.available_at)
    body = _encoder.encode(_Body(event.type, occurred_at, _plain(_builtins(event.data))))
    if len(body) > limit:
        raise TooLarge(f"data: the event has {len(body)} bytes; the limit is {limit}")
    return body


def utc_time(name: str, moment: datetime | None) -> datetime | None:
    """The same instant in UTC; a time without a zone is refused."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise BadRequest(f"{name}: {moment.isoformat()} has no time zone", hint="append Z for UTC")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise BadRequest(f"{name}: {moment.isoformat()} is out of range in UTC") from None


def check_text(path: str, value: str | None, length: int) -> None:
    """Raise `BadRequest` for a text that is too long or that no database can hold."""
    if value is None:
        return
    if len(value) > length:
        raise BadRequest(f"{path}: {len(value)} characters; the limit is {length}")
    _check_characters(path, value)


def _check_characters(path: str, value: str) -> None:
    if "\x00" in value:
        raise BadRequest(f"{path}: the text contains NUL (U+0000), which no database text may")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise BadRequest(f"{path}: the text contains half of a surrogate pair")


def _builtins(data: Any) -> Any:
    """Structs, dataclasses, enums, UUIDs as plain values; times and decimals stay for `_plain`."""
    try:
        return msgspec.to_builtins(data, builtin_types=(datetime, Decimal), str_keys=True)
    except RecursionError:
        raise BadRequest(f"data: nested deeper than {DEPTH_LIMIT} levels") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(f"data: {error}") from None


def _plain(value: Any, path: str = "data", depth: int = 0) -> Any:
    """The value with every time in UTC; raises `BadRequest` naming the path of what JSON lacks."""
    if depth > DEPTH_LIMIT:
        raise BadRequest(f"{path[:SHOWN]}: nested deeper than {DEPTH_LIMIT} levels")
    match value:
        case str():
            _check_characters(path, value)
        case float() if not math.isfinite(value):
            raise BadRequest(f"{path}: {value} is not a JSON number")
        case Decimal() if not value.is_finite():
            raise BadRequest(f"{path}: {value} is not a number")
        case datetime():
            return utc_time(path, value)
        case dict():
            for key in value:
                _check_characters(f"{path}.{key[:SHOWN]!r}", key)
            return {k: _plain(v, f"{path}.{k}", depth + 1) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
    return value
