"""A handler: an async function of yours that gets every event of a type, at least once.

    @handler("receipt", ORDER_PAID)              # typed: `data` is what the catalogue promises
    async def send_receipt(received: Received[OrderView]) -> None: ...

    @handler("ledger", "order.*")                # plain: a pattern, `data` is what JSON says
    async def book(received: Received[Any]) -> None: ...

Then name it in its feature: `Feature(..., handlers=(send_receipt,))`. Returning is delivered,
raising is a failure that is tried again by the policy, `ParkMessage` parks at once. Invariant: no
transaction is open when the function is called; it opens its own with `received.database`. It may
be called again for the same `message_id`: let that be the idempotency key of what it does.
"""

import inspect
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, overload
from uuid import UUID

import msgspec
from msgspec import Struct

from app.db.engine import Database
from app.errors import ConfigError
from app.outbox.catalogue import EventType
from app.outbox.message import Claim
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy
from app.outbox.subscriptions import check_pattern

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

D = TypeVar("D")
S = TypeVar("S", bound=Struct)


class ParkMessage(Exception):
    """Raise it in a handler when trying again can't help: a person should look at the message."""


class RetryLater(Exception):
    """Raise it in a handler that knows when to be called again, no earlier than in `seconds`."""

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(reason)
        if not 0 <= seconds < math.inf:
            raise ValueError(f"seconds is {seconds}; it must be 0 or more, and finite")
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Generic[D]):
    """What a handler is called with."""

    data: D
    type: str
    tenant: str  # of the event; a handler gets those of all tenants
    message_id: UUID  # the same on every attempt
    event_id: UUID
    occurred_at: datetime
    attempt: int  # from 1
    traceparent: str | None
    database: Database


class _Body(Struct, Generic[D], frozen=True):
    timestamp: datetime
    data: D


Function = Callable[[Received[D]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[D]):
    """A function under a name; its messages go to `handler:<name>`."""

    name: str
    pattern: str
    function: Function[D]
    policy: RetryPolicy
    timeout_seconds: float | None  # None: APP_REQUEST_TIMEOUT_SECONDS
    _decoder: msgspec.json.Decoder[_Body[D]]

    @property
    def destination(self) -> str:
        """`handler:<name>`."""
        return f"handler:{self.name}"

    def received(self, claim: Claim, database: Database) -> Received[D]:
        """What the function is called with; `msgspec.MsgspecError` if the body does not fit."""
        body = self._decoder.decode(claim.body)
        return Received(
            data=body.data, type=claim.type, tenant=claim.tenant, message_id=claim.message_id,
            event_id=claim.event_id, occurred_at=body.timestamp, attempt=claim.attempt,
            traceparent=claim.traceparent, database=database,
        )  # fmt: skip


@overload
def handler(
    name: str,
    on: EventType[S],
    *,
    policy: RetryPolicy = DEFAULT_POLICY,
    timeout_seconds: float | None = None,
) -> Callable[[Function[S]], Handler[S]]: ...


@overload
def handler(
    name: str,
    on: str,
    *,
    policy: RetryPolicy = DEFAULT_POLICY,
    timeout_seconds: float | None = None,
) -> Callable[[Function[Any]], Handler[Any]]: ...


def handler(
    name: str,
    on: EventType[Any] | str,
    *,
    policy: RetryPolicy = DEFAULT_POLICY,
    timeout_seconds: float | None = None,
) -> Callable[[Function[Any]], Handler[Any]]:
    """Make a handler of an async function: for one event type, or for a pattern such as `order.*`.

    The name is stored with each message: renaming a handler leaves its open messages behind.
    """

    def decorate(function: Function[Any]) -> Handler[Any]:
        _check(name, function)
        data: Any = on.data if isinstance(on, EventType) else Any
        return Handler(
            name=name,
            pattern=check_pattern(on.name if isinstance(on, EventType) else on),
            function=function,
            policy=policy,
            timeout_seconds=timeout_seconds,
            _decoder=msgspec.json.Decoder(_Body[data]),
        )

    return decorate


def _check(name: str, function: Function[Any]) -> None:
    if not NAME.fullmatch(name):
        raise ConfigError(f"handler {name!r}: a name is at most 64 small letters, digits, _ and -")
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(
            f"handler {name}: {function!r} is not an async function",
            hint="write async def; put what blocks into asyncio.to_thread",
        )
