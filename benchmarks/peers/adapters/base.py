"""What every Python adapter shares: the verbs, the handlers, the clock.

An adapter is a program that prints JSON lines on stdout. `python -m ...adapters.x VERB`:

    info                    one object, see `Adapter.info`
    setup                   makes its tables and `bench_order` in the empty database $BENCH_DB
    fill COUNT              commits COUNT messages
    enqueue SECONDS         {"without", "with_message"}: transactions a second over 8 connections
    trickle RATE COUNT      one message a transaction; {"sent": [ns after COMMIT, ...]}
    worker PROFILE EXPECT   {"event": "ready"}, then waits for a line on stdin and works:
                            {"event": "first", "at"}, {"event": "count", "count"} every 10 ms and as
                            soon as EXPECT is reached. When stdin ends it prints
                            {"event": "stamps", "at": {i: ns}} and exits.

The profile says what the handler does: `drain` counts, `latency` notes when message i arrived,
`http` posts the payload to $BENCH_URL. The payload of message i is {"i": i, "pad": "xxx..."}, about
1 KB. Times are CLOCK_MONOTONIC in nanoseconds, so they compare between processes and languages.
"""

# mypy: disable-error-code="import-untyped"
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import asyncpg
import uvloop

DSN = os.environ.get("BENCH_DB", "")
URL = os.environ.get("BENCH_URL", "")
PAD = "x" * 980
CONNECTIONS = 8
BUSINESS_DDL = """CREATE TABLE bench_order (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ref text NOT NULL, amount int NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now())"""
BUSINESS_SQL = "INSERT INTO bench_order (ref, amount) VALUES ($1, $2)"

Settings = dict[str, Any]
Handler = Callable[[int, str | bytes], Awaitable[None]]
now = time.monotonic_ns


def text(i: int) -> str:
    """Payload of message i."""
    return f'{{"i": {i}, "pad": "{PAD}"}}'


def number(payload: bytes) -> int:
    """Return the i of a payload, without parsing all of it."""
    return int(payload[6 : payload.index(b",")])


def out(**fields: object) -> None:
    """One line for whoever measures."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


class Meter:
    """What a worker has handled."""

    def __init__(self, expect: int) -> None:
        self.count = 0
        self.stamps: dict[int, int] = {}
        self._expect, self._begun = expect, False

    def begin(self) -> None:
        """A handler is called; the first call starts the clock of a drain."""
        if not self._begun:
            self._begun = True
            out(event="first", at=now())

    def done(self) -> None:
        """A handler has finished."""
        self.count += 1
        if self.count == self._expect:
            out(event="count", count=self.count)

    async def tell(self) -> None:
        """Print the count every 10 ms."""
        told = 0
        while True:
            await asyncio.sleep(0.01)
            if self.count != told:
                told = self.count
                out(event="count", count=told)


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker is started with. `ready` returns when it may claim."""

    settings: Settings
    handler: Handler
    meter: Meter
    ready: Callable[[], Awaitable[None]]


class Producer(Protocol):
    """One connection; each call is one transaction."""

    async def business(self, i: int) -> None:
        """Only the business row."""

    async def both(self, i: int) -> None:
        """The business row and its message."""

    async def close(self) -> None:
        """Give the connection back."""


class Adapter:
    """Subclass this for a system. `pending_sql` is asked often, so it has to be cheap."""

    version = ""
    profiles: ClassVar[dict[str, Settings]] = {}
    count = 20_000  # messages of a drain: as many as take about a second
    http_count = 15_000
    reset_sql = ""  # empties the queue
    pending_sql = ""  # true while a message is not durably completed
    left_sql = ""  # how many are not

    def info(self) -> dict[str, object]:
        """What has to be known to measure it."""
        names = ("version", "count", "http_count", "reset_sql", "pending_sql", "left_sql")
        return {name: getattr(self, name) for name in names}

    async def setup(self) -> None:
        """Make the tables."""
        raise NotImplementedError

    async def fill(self, count: int) -> None:
        """Commit `count` messages."""
        raise NotImplementedError

    async def producer(self, *, wake: bool) -> Producer:
        """One of up to eight; `wake`: as the `latency` profile needs it to be woken."""
        raise NotImplementedError

    async def run_worker(self, work: Work) -> None:
        """Connect, await `work.ready()`, then claim and handle until killed."""
        raise NotImplementedError


class PgProducer:
    """A producer on one asyncpg connection; subclasses add the message."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    async def enqueue(self, i: int) -> None:
        """Add message i to the open transaction."""
        raise NotImplementedError

    async def business(self, i: int) -> None:
        """Only the business row."""
        async with self.connection.transaction():
            await self.connection.execute(BUSINESS_SQL, "ref", i)

    async def both(self, i: int) -> None:
        """The business row and its message."""
        async with self.connection.transaction():
            await self.connection.execute(BUSINESS_SQL, "ref", i)
            await self.enqueue(i)

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.close()


async def _burst(calls: Sequence[Callable[[int], Awaitable[None]]], seconds: float) -> float:
    began = now()
    stop = began + int(seconds * 1e9)

    async def one(call: Callable[[int], Awaitable[None]]) -> int:
        done = 0
        while now() < stop:
            await call(done)
            done += 1
        return done

    total = sum(await asyncio.gather(*map(one, calls)))
    return total / ((now() - began) / 1e9)


async def _enqueue(adapter: Adapter, seconds: float) -> None:
    producers = [await adapter.producer(wake=False) for _ in range(CONNECTIONS)]
    business, both = [p.business for p in producers], [p.both for p in producers]
    await _burst(both, 0.15)
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        rates[0].append(await _burst(business, seconds / 6))
        rates[1].append(await _burst(both, seconds / 6))
    out(without=statistics.median(rates[0]), with_message=statistics.median(rates[1]))
    for producer in producers:
        await producer.close()


async def _trickle(adapter: Adapter, rate: float, count: int) -> None:
    producer, sent = await adapter.producer(wake=True), []
    began = time.monotonic()
    for i in range(count):
        await asyncio.sleep(max(0.0, began + i / rate - time.monotonic()))
        await producer.both(i)
        sent.append(now())
    await producer.close()
    out(sent=sent)


def main(adapter: Adapter, arguments: list[str]) -> None:
    """Do what the command line says."""
    match arguments:
        case ["info"]:
            out(**adapter.info())
        case ["setup"]:
            uvloop.run(adapter.setup())
            out(event="done")
        case ["fill", count]:
            uvloop.run(adapter.fill(int(count)))
            out(event="done")
        case ["enqueue", seconds]:
            uvloop.run(_enqueue(adapter, float(seconds)))
        case ["trickle", rate, count]:
            uvloop.run(_trickle(adapter, float(rate), int(count)))
        case ["worker", profile, expect]:
            # Imported late: it needs what only some environments have.
            from benchmarks.peers.adapters.worker import run

            uvloop.run(run(adapter, profile, int(expect)))
        case _:
            raise SystemExit(f"unknown verb: {arguments}")
