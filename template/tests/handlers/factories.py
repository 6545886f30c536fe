"""Handlers that do what a test needs, and claims for them."""

import asyncio
import time
from typing import Any

from msgspec import Struct

from app.handlers.handler import Handler, ParkMessage, Received, RetryLater, handler
from app.ids import uuid7
from app.outbox.catalogue import EventType
from app.outbox.message import Claim

BODY = b'{"type":"order.paid","timestamp":"2026-11-30T12:00:00Z","data":{"id":1}}'


class Paid(Struct, frozen=True):
    """Data of a registered event type."""

    id: int
    total: str


PAID = EventType("order.paid", Paid, Paid(1, "19.90"), "An order was paid.")


def claim_for(destination: str, **changes: Any) -> Claim:
    """A claim as the relay makes it."""
    given = {
        "message_id": uuid7(), "event_id": uuid7(), "type": "order.paid", "tenant": "acme",
        "destination": destination, "token": uuid7(), "attempt": 1, "ladder_start": 0,
        "age_seconds": 0.0, "body": BODY, "traceparent": None, "losses": 0,
        "claimed_at": time.monotonic(),
    }  # fmt: skip
    return Claim(**given | changes)


def recording() -> tuple[Handler[Any], list[Received[Any]]]:
    """A handler of everything, and what it got."""
    seen: list[Received[Any]] = []

    @handler("taken", "*")
    async def take(received: Received[Any]) -> None:
        seen.append(received)

    return take, seen


@handler("refused", "*")
async def refuse(received: Received[Any]) -> None:
    """Fails, however often it is called."""
    raise LookupError("no\nprinter " + "x" * 5000)


@handler("stalled", "*")
async def stall(received: Received[Any]) -> None:
    """Takes far longer than a test."""
    await asyncio.sleep(3600)


@handler("stubborn", "*", timeout_seconds=0.05)
async def ignore_the_timeout(received: Received[Any]) -> None:
    """Goes on after it was cancelled."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(3)
            return


@handler("parking", "*")
async def park(received: Received[Any]) -> None:
    """Knows that trying again can't help."""
    raise ParkMessage("the customer has no address")


@handler("later", "*")
async def later(received: Received[Any]) -> None:
    """Knows when to be called again."""
    raise RetryLater(120, "the mail server asks for two minutes")


@handler("cancelling", "*")
async def cancel_itself(received: Received[Any]) -> None:
    """As a library with cancel scopes may do."""
    raise asyncio.CancelledError


@handler("typed", PAID)
async def typed(received: Received[Paid]) -> None:
    """Gets what the catalogue promises."""
    assert isinstance(received.data, Paid)


EVERY = (refuse, stall, ignore_the_timeout, park, later, cancel_itself, typed)
