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

import uvloop
from app.memory import collect_seldom
from app.webhooks.sender import Sender, Target
from load_parts import (
    PAD,
    drain_once,
    endpoint,
    keep_sent,
    migrated,
    postgresql,
    publish_many,
    quantile,
    receiving,
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
)

COUNT = int(os.environ.get("BENCH_COUNT", "30000"))
SENT = int(os.environ.get("BENCH_SENT", "1000000"))


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


async def receiver(_url: str, _rounds: int) -> Found:
    """Answer until killed."""
    async with receiving() as place:
        sys.stdout.write(f"{place}/\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
    return {}


LOADS: dict[str, Callable[[str, int], Coroutine[Any, Any, Found]]] = {
    "history": history, "http": http, "memory": memory, "sqlite": embedded, "receiver": receiver,
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
