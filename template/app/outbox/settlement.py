"""A settlement as the row that the settle statements take: pure, the same for both databases.

Invariant: no text or number in a row can make the statement fail, because one bad row would hold
back every other outcome of its batch: NUL goes, halves of surrogates go, sizes are cut.
"""

from typing import NamedTuple, assert_never
from uuid import UUID

from msgspec import structs

from app.outbox.message import (
    Deferred,
    Delivered,
    ErrorKind,
    Failed,
    Outcome,
    Response,
)
from app.outbox.policy import GiveBack, Park, RetryIn, Sent
from app.outbox.store import Settlement

ERROR_LENGTH = 1000
LONGEST_SECONDS = 365 * 86400.0
_NO_RESPONSE = Response(0)


class Row(NamedTuple):
    """The arrays of the settle statement, one row; what the message's own row tells is not sent.

    `outcome` decides: delivered ends the message, failed spends the attempt, None gives it back.
    """

    id: UUID
    token: UUID
    outcome: str | None
    seconds: float | None  # until it is due again
    reason: str | None  # parked for
    error: str | None
    type: str
    started_ago: float
    duration_ms: float
    status_code: int | None
    error_kind: str | None
    response_head: bytes | None
    response_body: bytes | None


def row_of(settlement: Settlement) -> Row:
    """The row of one settlement."""
    result = settlement.result
    claim = result.claim
    seconds, reason = _next(settlement)
    outcome, kind, error, response = _log(settlement)
    return Row(
        claim.message_id, claim.token, outcome, seconds, reason, error, claim.type,
        result.started_seconds_ago, result.duration_seconds * 1000.0,
        _status(response), kind, response.head or None, response.body or None,
    )  # fmt: skip


def _next(settlement: Settlement) -> tuple[float | None, str | None]:
    match settlement.transition:
        case Sent():
            return None, None
        case RetryIn(seconds) | GiveBack(seconds, None):
            return storable_seconds(seconds), None
        case Park(reason):
            return None, reason.value
        case GiveBack(_, parked):
            return None, parked.value if parked else None
        case _:
            assert_never(settlement.transition)


def _log(settlement: Settlement) -> tuple[str | None, str | None, str | None, Response]:
    match settlement.result.outcome:
        case Delivered(response):
            return "delivered", None, None, response or _NO_RESPONSE
        case Failed(kind, error, response):
            return "failed", kind.value, storable(error), response or _NO_RESPONSE
        case Deferred(reason):
            return None, None, storable(reason), _NO_RESPONSE
        case _:
            assert_never(settlement.result.outcome)


def _status(response: Response) -> int | None:
    return response.status_code if 0 < response.status_code < 1000 else None


def without_answer(settlement: Settlement) -> Settlement:
    """The same transition, with nothing of what the deliverer said: stored when that can't be."""
    result, outcome = settlement.result, settlement.result.outcome
    match outcome:
        case Delivered():
            plain: Outcome = Delivered()
        case Failed():
            plain = Failed(ErrorKind.INTERNAL, "the answer could not be stored")
        case Deferred():
            plain = Deferred("the reason could not be stored")
        case _:
            assert_never(outcome)
    return Settlement(structs.replace(result, outcome=plain), settlement.transition)


def storable(text: str) -> str:
    """The text without what a database text can't hold, cut to the column's length."""
    clean = str(text).replace("\x00", "").encode(errors="replace").decode()
    return clean[:ERROR_LENGTH]


def storable_seconds(seconds: float) -> float:
    """The wait, if a time can be reckoned from it; else the longest there is."""
    return seconds if 0 <= seconds <= LONGEST_SECONDS else LONGEST_SECONDS
