"""One attempt: from a claim to an outcome and the transition it leads to.

Invariant: nothing that a deliverer does ends the relay. One that raises has failed its attempt,
which is retried and parked like any other failure. A kind that this version does not know is left
waiting, not parked: another relay, or the next version, may know it.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import structlog

from app.outbox.deliverer import NO_LIMIT, Answered, Deliverer, Limited, Room
from app.outbox.message import Claim, Deferred, ErrorKind, Failed, Outcome
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy, Transition, next_step
from app.relay.metrics import RelayMetrics

UNKNOWN_KIND_SECONDS = 300.0

logger = structlog.get_logger("app.relay")


class Ended(NamedTuple):
    """What an attempt came to."""

    outcome: Outcome
    transition: Transition


class Courier:
    """Hands claims to the deliverer of their kind."""

    def __init__(
        self, deliverers: Mapping[str, Deliverer], metrics: RelayMetrics, random: Random
    ) -> None:
        self._deliverers = deliverers
        self._rooms = {kind: d.room for kind, d in deliverers.items() if isinstance(d, Limited)}
        self._metrics = metrics
        self._random = random

    async def attempt(self, claim: Claim) -> Ended:
        """Make one attempt; never raises, except when its own task is cancelled."""
        kind = claim.destination.partition(":")[0]
        deliverer = self._deliverers.get(kind)
        if deliverer is None:
            return self._unknown(claim, kind)
        try:
            outcome = await deliverer.deliver(claim)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            self._metrics.errors.labels("deliverer").inc()
            logger.exception("deliverer raised", kind=kind, message_id=str(claim.message_id))
            outcome = Failed(ErrorKind.INTERNAL, f"{type(error).__name__} in the deliverer")
        return self._ended(outcome, claim, kind)

    def room(self, destination: str) -> Room:
        """What the destination lets through now, by limits of its own; never raises."""
        room = self._rooms.get(destination.partition(":")[0])
        if room is None:
            return NO_LIMIT
        try:
            return room(destination)
        except Exception:
            self._metrics.errors.labels("deliverer").inc()
            logger.exception("room raised", destination=destination)
            return NO_LIMIT

    def interrupted(self, claim: Claim, stop: asyncio.CancelledError) -> Ended:
        """The relay stops: an attempt without an answer, unless there was one already."""
        unanswered = Failed(ErrorKind.TIMEOUT, "the relay stopped before the receiver answered")
        outcome = stop.outcome if isinstance(stop, Answered) else unanswered
        return self._ended(outcome, claim, claim.destination.partition(":")[0])

    def _ended(self, outcome: Outcome, claim: Claim, kind: str) -> Ended:
        policy: RetryPolicy = DEFAULT_POLICY
        try:
            policy = self._deliverers[kind].policy(claim.destination)
        except Exception:  # what was delivered stays delivered
            self._metrics.errors.labels("deliverer").inc()
            logger.exception("policy raised", kind=kind, message_id=str(claim.message_id))
        try:
            return Ended(outcome, next_step(outcome, claim, policy, self._random))
        except Exception:
            self._metrics.errors.labels("deliverer").inc()
            logger.exception("no outcome", kind=kind, message_id=str(claim.message_id))
        failed = Failed(ErrorKind.INTERNAL, "the deliverer's answer or policy is none")
        return Ended(failed, next_step(failed, claim, DEFAULT_POLICY, self._random))

    def _unknown(self, claim: Claim, kind: str) -> Ended:
        self._metrics.errors.labels("unknown_kind").inc()
        logger.error("unknown kind of destination", kind=kind, message_id=str(claim.message_id))
        outcome = Deferred(f"this version delivers to no {kind!r}", UNKNOWN_KIND_SECONDS)
        return Ended(outcome, next_step(outcome, claim, DEFAULT_POLICY, self._random))


def _is_cancelled() -> bool:
    """Whether this task is to end; a deliverer's own inner tasks may be cancelled at any time."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
