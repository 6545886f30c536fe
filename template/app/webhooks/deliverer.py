"""Destinations of kind `webhook`: one claim, one signed request, one outcome.

    known.py (endpoint, keys) -> health.py (may it go now?) -> headers.py (signed)
      -> sender.py (POST) -> outcomes.py (outcome) -> health.py (what it says of the endpoint)

Invariant: no transaction is open while a request is out. An endpoint that is disabled or deleted
costs no attempt: the message is parked. One that takes nothing at present costs none either. No
message is sent more often than its policy says, however many relays are lost.
"""

import asyncio
import time

from prometheus_client import CollectorRegistry

from app.cipher import Cipher
from app.config import Settings
from app.db.engine import Database
from app.outbox.deliverer import NO_LIMIT, Answered, Room
from app.outbox.message import Claim, Deferred, Delivered, Failed, Outcome, ParkedReason
from app.outbox.policy import RetryPolicy, none_left
from app.webhooks.headers import message_headers
from app.webhooks.health import EndpointHealth
from app.webhooks.known import FRESH_SECONDS, KnownEndpoints
from app.webhooks.metrics import WebhookMetrics
from app.webhooks.outcomes import SendFailed, outcome_of, outcome_without_status
from app.webhooks.ready import Ready
from app.webhooks.sender import Sender


class WebhookDeliverer:
    """Delivers to webhook endpoints; the `Deliverer` of kind `webhook`, and `Limited`."""

    def __init__(
        self,
        database: Database,
        cipher: Cipher,
        settings: Settings,
        *,
        sender: Sender | None = None,
        metrics: WebhookMetrics | None = None,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._sender = sender or Sender(allow_private=settings.allow_private_targets)
        self._known = KnownEndpoints(database, cipher, settings, fresh_seconds)
        self._health = EndpointHealth(
            database, settings, metrics or WebhookMetrics(CollectorRegistry())
        )

    async def deliver(self, claim: Claim) -> Outcome:
        """Make one attempt. Never raises for what the receiver did."""
        known = await self._known.get(claim.destination)
        if isinstance(known, Deferred):
            return known
        if (exhausted := none_left(claim, known.policy)) is not None:
            return exhausted
        traffic = self._known.traffic(claim.destination)
        leave = await self._health.admit(known, traffic)
        if isinstance(leave, Deferred):
            return leave
        try:
            outcome = await self._send(claim, known)
        finally:
            traffic.in_flight -= 1
        try:
            await self._health.learn(claim, known, traffic, leave, outcome)
            if isinstance(outcome, Failed) and outcome.park is ParkedReason.GONE:
                await self._health.gone(claim, known)
                self._known.forget(claim.destination)
        except asyncio.CancelledError:  # what the receiver answered is known, and counts
            raise Answered(outcome) from None
        return outcome

    async def _send(self, claim: Claim, known: Ready) -> Delivered | Failed:
        try:
            headers = await message_headers(claim, known.signers, known.headers)
            response = await self._sender.send(known.target, headers, claim.body)
        except SendFailed as failure:
            return outcome_without_status(failure)
        return outcome_of(response, known.policy)

    def policy(self, destination: str) -> RetryPolicy:
        """The retry policy of a destination that `deliver` has just answered for."""
        return self._known.policy(destination)

    def room(self, destination: str) -> Room:
        """What the relay may claim for it; of one that is not known yet, as usual."""
        found = self._known.ready(destination)
        if found is None:
            return NO_LIMIT
        ready, traffic = found
        return traffic.room(self._health.me, ready.limits, time.monotonic())

    async def close(self) -> None:
        """Give back connections."""
        await self._health.close()
        self._known.close()
        await self._sender.close()
