"""The headers of a webhook request: Standard Webhooks 1.0, and a few of our own.

Invariant: `webhook-id` is the message's id on every attempt, so that a receiver can tell a
repetition; `webhook-event-id` is the same for all messages of an event, also after a replay.
"""

import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from uuid import UUID

from app.outbox.message import Claim
from app.program import program
from app.webhooks.signing import Signer, signature_headers

# Also keeps line breaks out: the text came from a request header.
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@cache
def _static() -> dict[str, str]:
    return {"content-type": "application/json", "user-agent": _user_agent()}


def _user_agent() -> str:
    """`my-app/1.2.3`; `app` in a bare checkout."""
    for entry in entry_points(group="console_scripts"):
        if entry.name == program() and entry.dist is not None:
            return f"{entry.name}/{entry.dist.version}"
    return "app"


async def message_headers(
    claim: Claim, signers: Sequence[Signer], own: Mapping[str, str]
) -> dict[str, str]:
    """The headers of one attempt, signed with every key for this second; `own`: the endpoint's."""
    headers = await request_headers(
        claim.message_id, claim.event_id, claim.body, signers, own, attempt=claim.attempt
    )
    if claim.sequence is not None:
        headers["webhook-sequence"] = str(claim.sequence)
    if claim.traceparent is not None and _TRACEPARENT.fullmatch(claim.traceparent):
        headers["traceparent"] = claim.traceparent
    return headers


async def request_headers(
    message_id: UUID,
    event_id: UUID,
    body: bytes,
    signers: Sequence[Signer],
    own: Mapping[str, str],
    *,
    attempt: int,
) -> dict[str, str]:
    """The headers that every request has; one of `own` never takes the place of another."""
    headers = dict(own)
    headers.update(await signature_headers(message_id, body, signers, int(time.time())))
    headers["webhook-event-id"] = str(event_id)
    headers["webhook-attempt"] = str(attempt)
    headers.update(_static())
    return headers
