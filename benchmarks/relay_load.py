"""Run by `relay.py` with the application on the path: one benchmark, figures as JSON on stdout."""

# mypy: disable-error-code="import-not-found,import-untyped"
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from functools import partial
from typing import Any

import load_limit as limit
import uvloop
from app.db.engine import Database
from app.memory import collect_seldom
from app.outbox.publish import Event, publish
from app.relay.wakeup import Notifier
from app.webhooks.sender import Sender, Target
from load_parts import (
    PAD,
    Stamps,
    drain_once,
    endpoint,
    keep_sent,
    migrated,
    postgresql,
    publish_many,
    quantile,
    receiving,
    relay_without_io,
    running,
    seconds_of,
    sqlite,
)
from load_promises import (
    MANY,
    NOWHERE,
    Found,
    embedded,
    fairness,
    memory,
    trickle,
    waits,
)
from sqlalchemy import text

COUNT = int(os.environ.get("BENCH_COUNT", "30000"))
SENT = int(os.environ.get("BENCH_SENT", "1000000"))


def dsn(url: str) -> str:
    """As asyncpg writes it."""
    return url.replace("postgresql+asyncpg", "postgresql")


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
        ours, bare = [], []
        try:
            for number in range(rounds):
                async with migrated(url, **MANY) as parts:  # a relay can be made once
                    if number == 0:
                        await endpoint(parts, place)
                    await publish_many(parts.database, COUNT)
                    ours.append(await seconds_of(parts.relay(), COUNT))
                bare.append(await _bare(place, COUNT))
        finally:
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


async def receiver(_url: str, _rounds: int) -> Found:
    """Answer until killed."""
    async with receiving() as place:
        sys.stdout.write(f"{place}/\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
    return {}


LOADS: dict[str, Callable[[str, int], Coroutine[Any, Any, Found]]] = {
    "drain": drain, "history": history, "http": http, "latency": latency, "enqueue": enqueue,
    "memory": memory, "sqlite": embedded, "receiver": receiver,
    "fairness-one": lambda url, _: fairness(url, 1),
    "fairness-tenant": lambda url, _: fairness(url, 1000),
}  # fmt: skip


def main() -> None:
    """One of them, on a database of its own."""
    name, rounds = sys.argv[1], int(sys.argv[2])
    database = {"sqlite": sqlite, "receiver": partial(nullcontext, "")}.get(name, postgresql)
    collect_seldom()  # as `my-app relay` does
    with database() as url:
        found = uvloop.run(LOADS[name](url, rounds))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
