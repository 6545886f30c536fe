"""One measurement of one system: a drain, its latency, what a message costs its producer.

Before each the system's queue is emptied. A drain is filled, analysed and checkpointed; its clock
runs from the first call of a handler until no message is open in the database. What takes longer
than CUT_SECONDS is cut, and the rate is that of what was durably completed.
"""

# mypy: disable-error-code="import-untyped"
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from benchmarks.peers.programs import Failed, Worker, call, workers
from benchmarks.peers.servers import Receiver
from benchmarks.peers.systems import Part, System

CUT_SECONDS = 2.5
START_SECONDS = 12  # until the first handler is called
SETTLE_SECONDS = 1.5  # no peer says when it listens
RATE = 50  # messages a second of a latency run
ENQUEUE_SECONDS = 1.8


@dataclass(frozen=True, slots=True)
class Info:
    """What a system says about itself."""

    version: str
    count: int
    http_count: int
    reset_sql: str
    pending_sql: str
    left_sql: str


@dataclass(frozen=True, slots=True)
class Drained:
    """Durably completed messages and the time they took."""

    done: int
    seconds: float
    cut: bool
    worker_cpu_us: float  # a message

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.done / self.seconds


@dataclass(frozen=True, slots=True)
class Waited:
    """From the return of COMMIT to the start of the handler."""

    milliseconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Transactions a second."""

    without: float
    with_message: float


Measured = Drained | Waited | Enqueued


async def prepare(system: System, admin: asyncpg.Connection) -> Info:
    """A database of its own with the system's tables."""
    info = Info(**await call(system, "info"))
    await admin.execute(f"DROP DATABASE IF EXISTS {system.database} WITH (FORCE)")
    await admin.execute(f"CREATE DATABASE {system.database}")
    await call(system, "setup")
    return info


async def _emptied(system: System, info: Info) -> asyncpg.Connection:
    """A connection to its database, in which nobody else is left and the queue is empty."""
    connection = await asyncpg.connect(system.environment["BENCH_DB"], command_timeout=60)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.execute(info.reset_sql)
    return connection


async def drain(
    system: System, info: Info, part: Part, processes: int, receiver: Receiver
) -> Drained:
    """Fill, release the workers together, wait until nothing is open."""
    count = info.http_count if part is Part.HTTP else info.count
    connection = await _emptied(system, info)
    await call(system, "fill", str(count))
    await connection.execute("ANALYZE")
    await connection.execute("CHECKPOINT")
    before = receiver.count()
    expect = count if processes == 1 else 0
    async with workers(system, part.value, processes, expect) as group:
        spent = sum(worker.cpu_seconds() for worker in group)
        for worker in group:
            worker.go()
        left, ended = await _until_empty(connection, info, group, count)
        spent = sum(worker.cpu_seconds() for worker in group) - spent
        began = min(worker.first for worker in group if worker.first)
    await connection.close()
    done = count - left
    if part is Part.HTTP and receiver.count() - before - 1 < done:
        raise Failed(f"{done} messages are done, fewer were received")
    return Drained(done, (ended - began) / 1e9, left > 0, spent / max(1, done) * 1e6)


async def _until_empty(
    connection: asyncpg.Connection, info: Info, group: Sequence[Worker], count: int
) -> tuple[int, int]:
    """How many are left, and when that was seen."""
    released = time.monotonic_ns()
    while True:
        await asyncio.sleep(0.004)
        first = min((worker.first for worker in group if worker.first), default=0)
        all_counted = first and sum(worker.count for worker in group) >= count
        if all_counted and not await connection.fetchval(info.pending_sql):
            return 0, time.monotonic_ns()
        if first and time.monotonic_ns() - first > CUT_SECONDS * 1e9:
            left: int = await connection.fetchval(info.left_sql)
            return left, time.monotonic_ns()
        if any(worker.gone for worker in group):
            raise Failed(f"a worker ended: {group[0].errors()}")
        if not first and time.monotonic_ns() - released > START_SECONDS * 1e9:
            raise Failed(f"no message was handled in {START_SECONDS} s: {group[0].errors()}")


async def latency(system: System, info: Info, count: int) -> Waited:
    """One message a transaction at RATE; every one of them has to arrive."""
    await (await _emptied(system, info)).close()
    async with workers(system, Part.LATENCY.value, 1) as group:
        worker = group[0]
        worker.go()
        await asyncio.sleep(SETTLE_SECONDS)
        sent = (await call(system, "trickle", str(RATE), str(count)))["sent"]
        for _ in range(100):
            if worker.count >= len(sent):
                break
            await asyncio.sleep(0.1)
        arrived = await worker.stamps()
        if len(arrived) < len(sent):
            raise Failed(f"{len(arrived)} of {len(sent)} arrived: {worker.errors()}")
    return Waited(tuple((arrived[i] - at) / 1e6 for i, at in enumerate(sent)))


async def enqueue(system: System, info: Info) -> Enqueued:
    """Slices with and without the message in turns, 8 connections."""
    await (await _emptied(system, info)).close()
    found: dict[str, Any] = await call(system, "enqueue", str(ENQUEUE_SECONDS))
    return Enqueued(found["without"], found["with_message"])
