"""How the limit's worker goes over its rows: handled in a loop, or sent by many senders."""

# mypy: disable-error-code="import-untyped"
import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from benchmarks.peers.adapters import base

CHANNEL = "outbox"


class Waiting(StrEnum):
    """What an empty queue waits for."""

    POLL = "poll"
    LISTEN = "listen"


Row = tuple[int, str]


@dataclass
class Claims:
    """Prepared claim and completion. Each claim has a token of its own."""

    claiming: PreparedStatement
    completing: PreparedStatement
    listening: asyncpg.Connection  # kept: without a reference it is closed
    batch: int
    waiting: Waiting
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    token: int = field(default_factory=lambda: base.now() // 1000)

    @classmethod
    async def open(cls, claim: str, complete: str, settings: base.Settings) -> Self:
        """Connect."""
        claims, completes, listens = [await asyncpg.connect(base.DSN) for _ in range(3)]
        made = cls(
            await claims.prepare(claim),
            await completes.prepare(complete),
            listens,
            settings["batch"],
            settings["waiting"],
        )
        if made.waiting is Waiting.LISTEN:
            await listens.add_listener(CHANNEL, lambda *_: made.woken.set())
        return made

    async def next(self) -> list[Row]:
        """Claim a batch."""
        self.token += 1
        rows: list[Row] = await self.claiming.fetch(self.batch, self.token)
        return rows

    async def complete(self, ids: list[int], token: int) -> None:
        """Complete what this token still holds."""
        await self.completing.fetch(ids, token)

    async def idle(self) -> None:
        """Wait for more."""
        match self.waiting:
            case Waiting.POLL:
                await asyncio.sleep(0.02)
            case Waiting.LISTEN:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.woken.wait(), 1.0)
                self.woken.clear()


async def drain(claims: Claims, work: base.Work) -> None:
    """One row after the other; a claim overlaps the completion of the batch before."""
    numbered = claims.waiting is Waiting.LISTEN
    completing: asyncio.Future[None] | None = None
    while True:
        rows, token = await claims.next(), claims.token
        if completing is not None:
            await completing
            completing = None
        if not rows:
            await claims.idle()
            continue
        for identity, payload in rows:
            i = base.number(payload.encode()) if numbered else identity
            await work.handler(i, payload)
        completing = asyncio.ensure_future(claims.complete([row[0] for row in rows], token))


async def send(claims: Claims, work: base.Work) -> None:
    """Many senders on a queue that is filled one claim ahead; completions every 10 ms."""
    queue: asyncio.Queue[tuple[int, Row]] = asyncio.Queue()
    sent: dict[int, list[int]] = {}
    some, more = asyncio.Event(), asyncio.Event()
    more.set()

    async def sender() -> None:
        while True:
            token, (identity, payload) = await queue.get()
            await work.handler(identity, payload)
            sent.setdefault(token, []).append(identity)
            some.set()
            if queue.qsize() < claims.batch:
                more.set()

    async def completer() -> None:
        while True:
            await some.wait()
            await asyncio.sleep(0.01)
            some.clear()
            batches = dict(sent)
            sent.clear()
            for token, ids in batches.items():
                await claims.complete(ids, token)

    async def claimer() -> None:
        while True:
            await more.wait()
            more.clear()
            rows = await claims.next()
            if not rows:
                await claims.idle()
                more.set()
            for row in rows:
                queue.put_nowait((claims.token, row))

    senders = [sender() for _ in range(work.settings["connections"])]
    await asyncio.gather(claimer(), completer(), *senders)
