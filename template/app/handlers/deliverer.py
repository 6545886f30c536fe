"""Destinations of kind `handler`: one claim, one call of the owner's function, one outcome.

Invariant: no transaction is open around the call, and whatever the function does is an outcome:
returning is Delivered, raising is Failed. One that ignores its timeout is left behind and holds up
nobody. A handler that this version does not know is waited for, because during a deployment
another relay may know it; only then is the message parked.
"""

import asyncio
from typing import Any

import msgspec
import structlog

from app.config import Settings
from app.db.engine import Database
from app.handlers.handler import Handler, ParkMessage, Received, RetryLater
from app.handlers.registry import Handlers
from app.outbox.message import (
    Claim,
    Deferred,
    Delivered,
    ErrorKind,
    Failed,
    Outcome,
    ParkedReason,
)
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy, none_left

UNKNOWN_SECONDS = 30.0  # between two looks at a handler that is not known
DEPLOYMENT_SECONDS = 3600.0  # how long another version may take to arrive
GRACE_SECONDS = 1.0  # for a cancelled function to end
ERROR_LENGTH = 300

Call = asyncio.Task[None]

logger = structlog.get_logger("app.handlers")


class HandlerDeliverer:
    """Calls handlers; the `Deliverer` of kind `handler`."""

    def __init__(self, database: Database, handlers: Handlers, settings: Settings) -> None:
        self._database = database
        self._handlers = handlers.by_destination
        self._timeout_seconds = settings.request_timeout_seconds
        self._left_behind: set[Call] = set()

    async def deliver(self, claim: Claim) -> Outcome:
        """Make one attempt. Never raises for what the function did."""
        handler = self._handlers.get(claim.destination)
        if handler is None:
            return _unknown(claim)
        if (exhausted := none_left(claim, handler.policy)) is not None:
            return exhausted
        try:
            received = handler.received(claim, self._database)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            text = _one_line(f"the event does not fit {handler.name}: {error}")
            return Failed(ErrorKind.HANDLER, text, park=ParkedReason.UNDELIVERABLE)
        call: Call = asyncio.create_task(_run(handler, received))
        seconds = handler.timeout_seconds or self._timeout_seconds
        try:
            await asyncio.wait({call}, timeout=seconds)
            in_time = call.done()
        finally:
            await self._end(call)
        if not call.done() or (call.cancelled() and not in_time):
            return Failed(ErrorKind.TIMEOUT, f"{handler.name} did not return within {seconds:g} s")
        if call.cancelled():
            return Failed(ErrorKind.HANDLER, f"{handler.name} was cancelled from within")
        return _outcome(call.exception(), handler, claim)

    def policy(self, destination: str) -> RetryPolicy:
        """The policy that the handler was made with."""
        handler = self._handlers.get(destination)
        return DEFAULT_POLICY if handler is None else handler.policy

    async def close(self) -> None:
        """Cancel what was left behind."""
        for call in self._left_behind:
            call.cancel()

    async def _end(self, call: Call) -> None:
        """Cancel a call that goes on; one that does not care goes on without us."""
        if call.done():
            return
        call.cancel()
        self._left_behind.add(call)
        call.add_done_callback(self._left_behind.discard)
        await asyncio.wait({call}, timeout=GRACE_SECONDS)


async def _run(handler: Handler[Any], received: Received[Any]) -> None:
    await handler.function(received)


def _outcome(error: BaseException | None, handler: Handler[Any], claim: Claim) -> Outcome:
    match error:
        case None:
            return Delivered()
        case ParkMessage():
            text = _one_line(str(error) or "parked by the handler")
            return Failed(ErrorKind.HANDLER, text, park=ParkedReason.REJECTED)
        case RetryLater():
            text = _one_line(str(error) or "the handler asked to be called later")
            return Failed(ErrorKind.HANDLER, text, retry_after_seconds=error.seconds)
        case _:
            logger.warning(
                "handler raised",
                handler=handler.name,
                message_id=str(claim.message_id),
                exc_info=error,
            )
            return Failed(ErrorKind.HANDLER, _one_line(f"{type(error).__name__}: {error}"))


def _unknown(claim: Claim) -> Deferred:
    name = claim.destination.partition(":")[2]
    reason = f"there is no handler {name[:64]!r} in this version"
    if claim.age_seconds < DEPLOYMENT_SECONDS:
        return Deferred(reason, UNKNOWN_SECONDS)
    return Deferred(reason, park=ParkedReason.UNDELIVERABLE)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:ERROR_LENGTH]
