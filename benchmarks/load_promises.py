"""Benchmarks of what the relay promises: fairness, memory, the embedded database."""

# mypy: disable-error-code="import-not-found,import-untyped"
import asyncio
import gc
import os
import time

from app.db.engine import Database
from app.outbox.publish import Event, publish
from app.wiring import Components
from load_parts import (
    PAD,
    Receiver,
    Stamps,
    drain_once,
    endpoint,
    migrated,
    publish_many,
    quantile,
    receiving,
    relay_without_io,
    resident_mb,
    running,
)  # fmt: skip
from sqlalchemy import text

BUSY = int(os.environ.get("BENCH_BUSY", "100000"))
PATIENCE_SECONDS = 30.0
NOWHERE = "http://127.0.0.1:9/"
MANY = {"APP_ENDPOINT_CONCURRENCY": "64"}  # for what measures one endpoint only; shipped are 8
Found = dict[str, float]


async def trickle(
    database: Database, rate: float, count: int, tenant: str = ""
) -> dict[int, float]:
    """One event a transaction; when each COMMIT returned."""
    committed, began = {}, time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        async with database.transaction() as session:
            event = Event(type="bench.created", data={"i": number, "pad": PAD}, tenant=tenant)
            await publish(session, event)
        committed[number] = time.monotonic()
    return committed


async def waits(committed: dict[int, float], arrived: dict[int, float]) -> list[float]:
    """From COMMIT to arrival; what has not arrived after a while has waited until now."""
    until = time.monotonic() + PATIENCE_SECONDS
    while len(arrived) < len(committed) and time.monotonic() < until:
        await asyncio.sleep(0.01)
    now = time.monotonic()
    return [max(0.0, arrived.get(number, now) - at) for number, at in committed.items()]


async def fairness(url: str, endpoints: int) -> Found:
    """A fresh message beside a tenant with a backlog that is answered in 2 s."""
    async with receiving() as place, migrated(url) as parts:
        await endpoint(parts, f"{place}/stamp", tenant="fresh")
        for _ in range(endpoints):
            await endpoint(parts, f"{place}/slow", tenant="busy")
        gc.freeze()  # as the command `relay` does
        async with running(parts.relay()):
            idle = await _fresh(parts)
            await publish_many(parts.database, BUSY // endpoints, tenant="busy")
            await asyncio.sleep(3)
            busy = await _fresh(parts)
            async with parts.database.transaction() as session:  # the rest need not be sent
                await session.execute(text("UPDATE endpoints SET status = 'disabled'"))
    return {"subject": quantile(busy, 0.99), "idle": quantile(idle, 0.99)}


async def _fresh(parts: Components) -> list[float]:
    Receiver.at.clear()
    committed = await trickle(parts.database, 50, 300, tenant="fresh")
    return await waits(committed, Receiver.at)


async def memory(url: str, _rounds: int) -> Found:
    """What a relay holds after 10,000 and after 110,000 deliveries in one run."""
    async with migrated(url, **MANY) as parts:
        await endpoint(parts, NOWHERE)
        relay = relay_without_io(parts, Stamps())
        sizes = []
        async with running(relay):
            for count in (10_000, 100_000):
                done = relay.counts.delivered + count
                for start in range(0, count, 10_000):  # published in bits: memory is the relay's
                    await publish_many(parts.database, min(10_000, count - start))
                    async with asyncio.timeout(120):
                        while relay.counts.delivered < done - count + start + 10_000:
                            await asyncio.sleep(0.05)
                sizes.append(resident_mb())
    return {"subject": sizes[1], "reference": sizes[0]}


async def embedded(url: str, rounds: int) -> Found:
    """SQLite, one process: drain without I/O, and from COMMIT to a receiver at 50/s."""
    async with migrated(url, **MANY) as parts:
        await endpoint(parts, NOWHERE, tenant="")
        spent = [await drain_once(parts, 6000) for _ in range(rounds)]
        async with receiving() as place:
            await endpoint(parts, f"{place}/stamp", tenant="fresh")
            async with running(parts.relay()):
                ours = await _fresh(parts)
    return {"drain": quantile(spent, 0.5), "count": 6000, "p99": quantile(ours, 0.99)}
