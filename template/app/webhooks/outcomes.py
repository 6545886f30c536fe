"""What an HTTP answer means: the table from status to outcome, and Retry-After. Pure.

Invariant: the status decides alone; a body that breaks off or never ends changes nothing.

    2xx                            Delivered
    retry.on_status of the endpoint  first: `retry` or `park`, whatever follows below
    408, 425, 429, 5xx             Failed, tried again by the policy
    410                            parked `gone`; the endpoint is disabled (see `deliverer.py`)
    other 3xx and 4xx              parked `rejected` at once: no redirect is followed
    no status                      Failed, tried again; a forbidden address is parked
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from app.outbox.message import Delivered, ErrorKind, Failed, ParkedReason, Response
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy
from app.webhooks.retry import on_status

ERROR_LENGTH = 300
_RETRIED = frozenset({408, 425, 429})
_RETRY_AFTER = frozenset({429, 503})


class SendFailed(Exception):
    """No status was received; `kind` tells at which step it went wrong."""

    def __init__(self, kind: ErrorKind, text: str, park: ParkedReason | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = _one_line(text)
        self.park = park


def _one_line(text: str) -> str:
    """Fit to be stored and shown: parts of it may come from the receiver."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:ERROR_LENGTH]


def outcome_of(response: Response, policy: RetryPolicy = DEFAULT_POLICY) -> Delivered | Failed:
    """The outcome of an attempt that got a status."""
    status = response.status_code
    if 200 <= status < 300:
        return Delivered(response)
    rule = on_status(policy, status)
    if rule == "retry" or (rule is None and (status in _RETRIED or status >= 500)):
        wait = retry_after_seconds(response.head) if status in _RETRY_AFTER else None
        return Failed(ErrorKind.STATUS, describe(status), response, retry_after_seconds=wait)
    park = ParkedReason.GONE if status == HTTPStatus.GONE else ParkedReason.REJECTED
    return Failed(ErrorKind.STATUS, describe(status), response, park=park)


def outcome_without_status(failure: SendFailed) -> Failed:
    """The outcome of an attempt that got no status."""
    return Failed(failure.kind, failure.text, park=failure.park)


def describe(status: int) -> str:
    """`answered 404 Not Found`."""
    try:
        return f"answered {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"answered {status}"


def retry_after_seconds(head: bytes, now: datetime | None = None) -> float | None:
    """What Retry-After asks for, in seconds; None if it is absent, past or malformed."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"retry-after":
            return _seconds(value.strip().decode("latin-1"), now)
    return None


def _seconds(text: str, now: datetime | None) -> float | None:
    if text.isascii() and text.isdigit():
        return float(text[:12]) or None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    wait = (moment - (now or datetime.now(UTC))).total_seconds()
    return wait if wait > 0 else None
