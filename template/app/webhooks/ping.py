"""A test request to an endpoint: one signed ping, and its answer explained in words.

Invariant: the endpoint is read, then the request is made with no transaction open. Nothing is
stored: a ping is no message, belongs to no event and is never tried again.
"""

import time
from datetime import UTC, datetime
from uuid import UUID

import msgspec
from msgspec import Struct

from app.cipher import Cipher
from app.config import Settings
from app.db.engine import Database
from app.errors import Conflict
from app.ids import uuid7
from app.outbox.message import Delivered, ErrorKind, Failed, ParkedReason, Response
from app.webhooks.endpoints import get_endpoint
from app.webhooks.headers import request_headers
from app.webhooks.outcomes import SendFailed, describe, outcome_of, outcome_without_status
from app.webhooks.ready import Ready, prepare, read_rows
from app.webhooks.sender import Sender

PING_TYPE = "endpoint.test"
SHOWN_CHARACTERS = 500

_ADVICE = {
    ErrorKind.STATUS: "A message would be tried again by the endpoint's retry policy.",
    ErrorKind.DNS: "Check the host name in the URL, and the DNS of this machine.",
    ErrorKind.CONNECT: "Is the receiver running, and may this machine reach its port?",
    ErrorKind.TLS: "The receiver's certificate must be valid for the host name in the URL.",
    ErrorKind.TIMEOUT: "The receiver should answer first and work afterwards.",
    ErrorKind.RESET: "The receiver, or a proxy before it, closes connections: see its log.",
    ErrorKind.PROTOCOL: "Something that does not speak HTTP/1.1 listens there; http for https?",
    ErrorKind.FORBIDDEN: "Only public addresses may be called; see APP_ALLOW_PRIVATE_TARGETS.",
    ErrorKind.HANDLER: "",
    ErrorKind.INTERNAL: "See the log of this application.",
}


class PingReport(Struct, frozen=True, kw_only=True):
    """What a test request got, and what the same answer would mean for a message."""

    endpoint_id: UUID
    webhook_id: UUID
    delivered: bool
    status_code: int | None
    error_kind: ErrorKind | None
    duration_ms: float
    response_body: str
    explanation: str


async def test_endpoint(
    database: Database,
    cipher: Cipher,
    settings: Settings,
    endpoint_id: UUID,
    tenant: str | None = None,  # noqa: PT028 - the name is the command's, this is no test
) -> PingReport:
    """Send one signed ping, also to a disabled endpoint; raises `NotFound` or `Conflict`."""
    async with database.read() as session:
        endpoint = await get_endpoint(session, endpoint_id, tenant)
        rows = await read_rows(session, [endpoint_id])
    ready = prepare(rows.get(endpoint_id, ()), cipher, settings)
    if not isinstance(ready, Ready):
        raise Conflict(f"endpoint {endpoint_id} can't be tested: {ready.reason}")
    webhook_id, started = uuid7(), time.monotonic()
    outcome = await _ping(ready, settings, webhook_id)
    response = outcome.response
    explanation = _explain(outcome)
    if endpoint.status != "enabled":
        explanation += " The endpoint is disabled: messages for it are parked until it is enabled."
    return PingReport(
        endpoint_id=endpoint_id,
        webhook_id=webhook_id,
        delivered=isinstance(outcome, Delivered),
        status_code=response.status_code if response else None,
        error_kind=outcome.kind if isinstance(outcome, Failed) else None,
        duration_ms=round((time.monotonic() - started) * 1000, 1),
        response_body=_text(response),
        explanation=explanation,
    )


async def _ping(ready: Ready, settings: Settings, webhook_id: UUID) -> Delivered | Failed:
    data = {"endpoint_id": str(ready.endpoint_id)}
    body = msgspec.json.encode({"type": PING_TYPE, "timestamp": datetime.now(UTC), "data": data})
    headers = await request_headers(
        webhook_id, webhook_id, body, ready.signers, ready.headers, attempt=1
    )
    sender = Sender(allow_private=settings.allow_private_targets)
    try:
        return outcome_of(await sender.send(ready.target, headers, body), ready.policy)
    except SendFailed as failure:
        return outcome_without_status(failure)
    finally:
        await sender.close()


def _explain(outcome: Delivered | Failed) -> str:
    """The answer in words, and what it would mean for a message."""
    match outcome:
        case Delivered(response=response):
            assert response is not None
            return f"The receiver {describe(response.status_code)}: a message would be delivered."
        case Failed(park=ParkedReason.GONE):
            return f"The receiver {outcome.error}: a message would park and disable the endpoint."
        case Failed(park=ParkedReason.REJECTED):
            advice = "a message would be parked at once, because trying again would not help."
            return f"The receiver {outcome.error}: {advice} {_remedy(outcome)}".rstrip()
        case Failed(park=ParkedReason.FORBIDDEN_TARGET):
            advice = "a message would be parked at once."
            return f"It was not called, {outcome.error}: {advice} {_ADVICE[outcome.kind]}"
        case Failed(kind=ErrorKind.STATUS):
            return f"The receiver {outcome.error}. {_ADVICE[outcome.kind]}"
        case Failed():
            return f"There was no answer: {outcome.error}. {_ADVICE[outcome.kind]}".rstrip()


def _remedy(failed: Failed) -> str:
    assert failed.response is not None
    match failed.response.status_code:
        case 400 | 401 | 403:
            return "If it verifies signatures: does it have this endpoint's present secret?"
        case status if 300 <= status < 400:
            return "Redirects are not followed: set the endpoint's URL to the new address."
        case _:
            return ""


def _text(response: Response | None) -> str:
    if response is None:
        return ""
    return response.body.decode("utf-8", "replace").replace("\x00", "\ufffd")[:SHOWN_CHARACTERS]
