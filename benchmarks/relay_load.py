"""Run by `relay.py` with the application on the path: one benchmark, figures as JSON on stdout."""

# mypy: disable-error-code="import-not-found,import-untyped"
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial

import load_limit as limit
import uvloop
from app.db.engine import Database
from app.outbox.publish import Event, publish
from app.relay.relay import Relay
from app.relay.wakeup import Notifier
from app.webhooks.sender import Sender, Target
from app.wiring import Components
from load_parts import (
    PAD,
    Receiver,
    Stamps,
    endpoint,
    keep_sent,
    migrated,
    postgresql,
    publish_many,
    quantile,
    receiving,
    relay_without_io,
    resident_mb,
    running,
    sqlite,
)
from sqlalchemy import text

COUNT = int(os.environ.get("BENCH_COUNT", "30000"))
SENT = int(os.environ.get("BENCH_SENT", "1000000"))
BUSY = int(os.environ.get("BENCH_BUSY", "100000"))
NOWHERE = "http://127.0.0.1:9/"
MANY = {"APP_ENDPOINT_CONCURRENCY": "64"}  # these measure one endpoint only; shipped are 8
Found = dict[str, float]


def dsn(url: str) -> str:
    """As asyncpg writes it."""
    return url.replace("postgresql+asyncpg", "postgresql")


async def drain_once(parts: Components, count: int) -> float:
    """Seconds for `count` messages through a relay without I/O."""
    await publish_many(parts.database, count)
    return await seconds_of(relay_without_io(parts, Stamps()), count)


async def seconds_of(relay: Relay, count: int) -> float:
    """From its first claim until the last outcome is written."""
    task, began = asyncio.create_task(relay.run()), 0.0
    async with asyncio.timeout(300):
        while relay.counts.delivered < count:
            await asyncio.sleep(0.002)
            if not began and relay.counts.claimed:
                began = time.monotonic()
    seconds = time.monotonic() - began
    relay.stop()
    assert (await task).delivered == count
    return seconds


async def drain(url: str, rounds: int) -> Found:
    """The relay without I/O and the database's limit, in turns."""
    async with migrated(url, **MANY) as parts:
        await endpoint(parts, NOWHERE)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(await drain_once(parts, COUNT))
            await limit.fill(dsn(url), COUNT)
            theirs.append(await limit.drain(dsn(url)))
    return {"subject": quantile(ours, 0.5), "reference": quantile(theirs, 0.5), "count": COUNT}


async def history(url: str, rounds: int) -> Found:
    """The same drain with a million sent messages kept, and without."""
    async with migrated(url, **MANY) as parts:
        place = await endpoint(parts, NOWHERE)
        without = [await drain_once(parts, COUNT) for _ in range(rounds)]
        await keep_sent(parts.database, place, SENT)
        beside = [await drain_once(parts, COUNT) for _ in range(rounds)]
    return {"subject": quantile(beside, 0.5), "reference": quantile(without, 0.5), "count": SENT}


async def http(url: str, rounds: int) -> Found:
    """Signed webhooks to a receiver in another process, and the bare loop of the same client."""
    command = [sys.executable, __file__, "receiver", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:  # noqa: ASYNC220
        assert receiver.stdout is not None
        place = receiver.stdout.readline().strip()
        async with migrated(url, **MANY) as parts:
            await endpoint(parts, place)
            ours, bare = [], []
            for _ in range(rounds):
                await publish_many(parts.database, COUNT)
                ours.append(await seconds_of(parts.relay(), COUNT))
                bare.append(await _bare(place, COUNT))
        receiver.kill()
    return {"subject": quantile(ours, 0.5), "reference": quantile(bare, 0.5), "count": COUNT}


async def _bare(url: str, count: int) -> float:
    sender, body = Sender(allow_private=True), PAD.encode()
    target = Target.of(url, total_seconds=15, connect_seconds=5)
    headers = {
        "webhook-id": "1" * 36,
        "webhook-signature": "v1," + "a" * 44,
        "webhook-timestamp": "1",
    }
    left = iter(range(count))

    async def one() -> None:
        for _ in left:
            await sender.send(target, headers, body)

    began = time.monotonic()
    await asyncio.gather(*(one() for _ in range(64)))
    seconds = time.monotonic() - began
    await sender.close()
    return seconds


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
    """From COMMIT to arrival, once all have arrived."""
    async with asyncio.timeout(60):
        while len(arrived) < len(committed):
            await asyncio.sleep(0.01)
    return [max(0.0, arrived[number] - at) for number, at in committed.items()]


async def latency(url: str, _rounds: int) -> Found:
    """COMMIT to deliverer at 50/s between two processes' worth of connections, and the limit's."""
    async with migrated(url) as parts, migrated(url) as publishing:
        await endpoint(parts, NOWHERE)
        stamps, notifier = Stamps(numbered=True), Notifier(publishing.database)
        await notifier.start()
        async with running(relay_without_io(parts, stamps)):
            committed = await trickle(publishing.database, 50, 400)
            ours = await waits(committed, stamps.at)
        await notifier.stop()
    theirs = await limit.latency(dsn(url), 50, 400)
    return {
        "subject": quantile(ours, 0.5), "reference": quantile(theirs, 0.5),
        "subject_p99": quantile(ours, 0.99), "reference_p99": quantile(theirs, 0.99),
    }  # fmt: skip


async def enqueue(url: str, rounds: int) -> Found:
    """A business row with `publish` and without, eight sessions at once, in turns."""
    async with migrated(url) as parts:
        await endpoint(parts, NOWHERE)
        database, notifier = parts.database, Notifier(parts.database)
        async with database.transaction() as session:
            await session.execute(text("CREATE TABLE bench_order (id uuid, ref text)"))
        await notifier.start()
        spent: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(2 * rounds):
            for both in (True, False):
                spent[both].append(await _sessions(database, 400, publishing=both))
        await notifier.stop()
    with_event, without = quantile(spent[True], 0.5), quantile(spent[False], 0.5)
    return {"subject": with_event, "reference": without, "count": 400}


async def _sessions(database: Database, count: int, *, publishing: bool) -> float:
    left, began = iter(range(count)), time.monotonic()
    row = text("INSERT INTO bench_order VALUES (gen_random_uuid(), 'ref')")

    async def one() -> None:
        for number in left:
            async with database.transaction() as session:
                await session.execute(row)
                if publishing:
                    data = {"i": number, "pad": PAD}
                    await publish(session, Event(type="bench.created", data=data))

    await asyncio.gather(*(one() for _ in range(8)))
    return time.monotonic() - began


async def fairness(url: str, endpoints: int) -> Found:
    """A fresh message beside a tenant with a backlog that is answered in 2 s."""
    async with receiving() as place, migrated(url) as parts:
        await endpoint(parts, f"{place}/stamp", tenant="fresh")
        for _ in range(endpoints):
            await endpoint(parts, f"{place}/slow", tenant="busy")
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


async def receiver(_url: str, _rounds: int) -> Found:
    """Answer until killed."""
    async with receiving() as place:
        sys.stdout.write(f"{place}/\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
    return {}


LOADS: dict[str, Callable[[str, int], Awaitable[Found]]] = {
    "drain": drain, "history": history, "http": http, "latency": latency, "enqueue": enqueue,
    "memory": memory, "sqlite": embedded, "receiver": receiver,
    "fairness-one": lambda url, _: fairness(url, 1),
    "fairness-tenant": lambda url, _: fairness(url, 1000),
}  # fmt: skip


def main() -> None:
    """One of them, on a database of its own."""
    name, rounds = sys.argv[1], int(sys.argv[2])
    database = {"sqlite": sqlite, "receiver": partial(nullcontext, "")}.get(name, postgresql)
    with database() as url:
        found = uvloop.run(LOADS[name](url, rounds))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
