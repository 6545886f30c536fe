"""What webhook tests set up: endpoints and claims."""

import time
from uuid import UUID

from app.cipher import Cipher
from app.ids import uuid7
from app.outbox.message import (
    Claim,
    webhook_destination,
)
from app.webhooks.endpoint import EndpointCreate
from app.webhooks.endpoints import (
    create_endpoint,
)
from tests.conftest import SECRET

CIPHER = Cipher(SECRET)


BODY = b'{"type":"order.paid","timestamp":"2026-11-30T12:00:00Z","data":{"id":1}}'


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def endpoint_at(database, settings, url: str, **fields):
    wanted = EndpointCreate(url=url, types=["*"], **fields)
    async with database.transaction() as session:
        return await create_endpoint(session, CIPHER, settings, wanted, "")


def claim_for(endpoint_id: UUID, **changes) -> Claim:
    given = {
        "message_id": uuid7(),
        "event_id": uuid7(),
        "type": "order.paid",
        "tenant": "",
        "destination": webhook_destination(endpoint_id),
        "token": uuid7(),
        "attempt": 1,
        "ladder_start": 0,
        "age_seconds": 0.0,
        "body": BODY,
        "traceparent": None,
        "losses": 0,
        "claimed_at": time.monotonic(),
    }
    return Claim(**given | changes)
