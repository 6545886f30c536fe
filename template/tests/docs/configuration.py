"""docs/configuration.md, made from `app.config.Settings` and `app.outbox.policy`."""

from dataclasses import Field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from app.config import LEASE_MARGIN_SECONDS, MIN_SECRET_LENGTH, Settings, variable
from app.outbox.policy import DEFAULT_POLICY, RETRY_AFTER_CAP_SECONDS, span_of

_PAGE = """\
# Configuration

<!-- Made by `make docs` from app/config.py. Don't edit: a test compares. -->

Every setting is an environment variable.
`.env` of the working directory fills in what the environment leaves open.
A variable that starts with `APP_` and is no setting is reported as a warning with the nearest name.
Booleans are `true`, `false`, `1` or `0`. The unit of a number is part of its name.

| variable | default | values | meaning |
|---|---|---|---|
{rows}

## Rules checked at start

A process that breaks one of them does not start. It names the variable and the rule.

- Every number is above 0.
- `APP_DATABASE_URL` starts with `sqlite+aiosqlite:` or `postgresql+asyncpg:`.
- `APP_CONNECT_TIMEOUT_SECONDS` is at most `APP_REQUEST_TIMEOUT_SECONDS`.
- `APP_LEASE_SECONDS` is at least `APP_REQUEST_TIMEOUT_SECONDS` + {margin:g} s.
  With less, a request could outlive its lease and go out twice.
- `APP_SECRET_KEY` is set. In production it has at least {secret} characters and is not the
  placeholder of `.env.example`.
- In production `APP_ALLOW_PRIVATE_TARGETS` is not true.

## The retry schedule

A message gets at most {attempts} attempts.
The waits between them double from {base:g} s up to {cap:g} s.
They are spread by {jitter:.0%} to either side, never above the cap.
Without the spread they are, in seconds:

    {waits}

That is {span} from the first attempt to the last. Then the message is parked as `exhausted`.
An answer 429 or 503 with `Retry-After` can make a wait longer, never shorter, up to {retry_after}.
The numbers are the defaults of `Exponential` in `app/outbox/policy.py`.
"""


def page() -> str:
    """The whole page."""
    return _PAGE.format(
        rows="\n".join(_row(field) for field in fields(Settings)),
        margin=LEASE_MARGIN_SECONDS,
        secret=MIN_SECRET_LENGTH,
        attempts=DEFAULT_POLICY.attempts,
        base=DEFAULT_POLICY.base_seconds,
        cap=DEFAULT_POLICY.cap_seconds,
        jitter=DEFAULT_POLICY.jitter,
        waits=" ".join(f"{DEFAULT_POLICY.wait(n):g}" for n in range(1, DEFAULT_POLICY.attempts)),
        span=_hours(span_of(DEFAULT_POLICY).seconds),
        retry_after=_hours(RETRY_AFTER_CAP_SECONDS),
    )


def _row(field: Field[Any]) -> str:
    kind = get_type_hints(Settings)[field.name]
    cells = (f"`{variable(field.name)}`", _default(field.default), _values(kind))
    return f"| {' | '.join(cells)} | {field.metadata['doc']} |"


def _default(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`" if value not in ("", None) else "none"


def _values(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    names = {bool: "boolean", int: "whole number", float: "number", str: "text"}
    return names[kind] if kind in names else names[get_args(kind)[0]]  # or None


def _hours(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
