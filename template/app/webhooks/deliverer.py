"""Destinations of kind `webhook`: one claim, one signed request, one outcome.

    known.py (endpoint, keys) -> headers.py (signed) -> sender.py (POST) -> outcomes.py (outcome)

Invariant: no transaction is open while a request is out. An endpoint that is disabled or deleted
costs no attempt: the message is parked.
"""

import asyncio

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.api.audit import audit
from app.cipher import Cipher
from app.config import Settings
from app.db.engine import Database
from app.outbox.message import Claim, Deferred, Failed, Outcome, ParkedReason
from app.outbox.policy import RetryPolicy
from app.webhooks.endpoints import disable_gone
from app.webhooks.headers import message_headers
from app.webhooks.known import FRESH_SECONDS, KnownEndpoints
from app.webhooks.outcomes import SendFailed, outcome_of, outcome_without_status
from app.webhooks.ready import Ready
from app.webhooks.sender import Sender

DISABLE_SECONDS = 5.0  # a database that does not answer must not hold a sender

logger = structlog.get_logger("app.webhooks")


class WebhookDeliverer:
    """Delivers to webhook endpoints; the `Deliverer` of kind `webhook`."""

    def __init__(
        self,
        database: Database,
        cipher: Cipher,
        settings: Settings,
        *,
        sender: Sender | None = None,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._database = database
        self._sender = sender or Sender(allow_private=settings.allow_private_targets)
        self._disabling: set[asyncio.Task[None]] = set()
        self._known = KnownEndpoints(database, cipher, settings, fresh_seconds)

    async def deliver(self, claim: Claim) -> Outcome:
        """Make one attempt. Never raises for what the receiver did."""
        known = await self._known.get(claim.destination)
        if isinstance(known, Deferred):
            return known
        try:
            headers = message_headers(claim, known.keys)
            response = await self._sender.send(known.target, headers, claim.body)
        except SendFailed as failure:
            return outcome_without_status(failure)
        outcome = outcome_of(response, known.policy)
        if isinstance(outcome, Failed) and outcome.park is ParkedReason.GONE:
            await self._disable(claim.destination, known)
        return outcome

    def policy(self, destination: str) -> RetryPolicy:
        """The retry policy of a destination that `deliver` has just answered for."""
        return self._known.policy(destination)

    async def close(self) -> None:
        """Give back connections."""
        if self._disabling:
            await asyncio.wait(self._disabling, timeout=DISABLE_SECONDS)
        self._known.close()
        await self._sender.close()

    async def _disable(self, destination: str, known: Ready) -> None:
        """The receiver is gone for good; a failure here changes nothing about the attempt."""
        disabling = asyncio.create_task(self._disable_gone(known))
        self._disabling.add(disabling)
        disabling.add_done_callback(self._disabling.discard)
        await asyncio.wait({disabling}, timeout=DISABLE_SECONDS)
        self._known.forget(destination)

    async def _disable_gone(self, known: Ready) -> None:
        try:
            async with self._database.transaction() as session:
                if await disable_gone(session, known.endpoint_id, known.version):
                    detail = {"reason": "it answered 410 Gone"}
                    target = str(known.endpoint_id)
                    await audit(session, "relay", "endpoint.disable", target, **detail)
        except (SQLAlchemyError, OSError) as error:
            endpoint, text = str(known.endpoint_id), repr(error)[:200]
            logger.warning("endpoint not disabled", endpoint_id=endpoint, error=text)
