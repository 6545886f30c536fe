"""Endpoint options as a person types them: a retry policy as text, 0 or `default` for no value.

Invariant: nothing is guessed: a text that is no policy is refused with the forms that there are.
"""

import re
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from app.errors import UsageError
from app.outbox.policy import Ladder, RetryPolicy

FORMS = "1m,5m,1h (a ladder), JSON as in the API, or default"
_WAIT = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

Number = TypeVar("Number", int, float)


def policy_from(text: str) -> RetryPolicy | None:
    """`1m,5m,1h` or JSON as a policy; None for `default`. Raises `UsageError`."""
    if text.strip() == "default":
        return None
    if not text.lstrip().startswith("{"):
        return Ladder(delays_seconds=tuple(_seconds(part, text) for part in text.split(",")))
    try:
        policy: RetryPolicy = msgspec.json.decode(text.encode(), type=RetryPolicy)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise UsageError(f"--retry: {error}", hint=f"write {FORMS}") from None
    return policy


def _seconds(part: str, text: str) -> float:
    found = _WAIT.fullmatch(part.strip())
    if found is None:
        raise UsageError(
            f"--retry {text[:80]!r}: {part.strip()[:20]!r} is no wait such as 30s, 5m, 1h or 1d",
            hint=f"write {FORMS}",
        )
    return float(found[1]) * _UNITS[found[2]]


def changed_policy(text: str | None) -> RetryPolicy | UnsetType | None:
    """Left out: unchanged."""
    return UNSET if text is None else policy_from(text)


def changed_number(value: Number | None) -> Number | UnsetType | None:
    """Left out: unchanged; 0: no value, so the default."""
    return UNSET if value is None else (value or None)
