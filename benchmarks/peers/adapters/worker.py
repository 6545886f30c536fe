"""The verb `worker` of the Python adapters: its handlers, the start signal and the end."""

# mypy: disable-error-code="import-not-found"
import asyncio
import os
import sys
from datetime import timedelta
from typing import Any

from benchmarks.peers.adapters.base import URL, Adapter, Handler, Meter, Settings, Work, now, out

HEADERS = {
    "content-type": "application/json",
    "webhook-id": "msg_0123456789abcdef",
    "webhook-timestamp": "1700000000",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def _counting(meter: Meter) -> Handler:
    async def handle(_i: int, _payload: str | bytes) -> None:
        if not meter.count:
            meter.begin()
        meter.done()

    return handle


def _noting(meter: Meter) -> Handler:
    async def handle(i: int, _payload: str | bytes) -> None:
        meter.stamps.setdefault(i, now())
        meter.count += 1

    return handle


def _posting(meter: Meter, connections: int) -> Handler:
    # The fastest HTTP client for Python that was found; aiohttp does two thirds of it.
    from pyreqwest.client import ClientBuilder

    building: Any = ClientBuilder().timeout(timedelta(seconds=15)).max_connections(connections)
    client = building.http1_only().build()

    async def handle(_i: int, payload: str | bytes) -> None:
        meter.begin()
        body = payload if isinstance(payload, bytes) else payload.encode()
        response = await client.post(URL).headers(HEADERS).body_bytes(body).build().send()
        if response.status >= 300:
            raise RuntimeError(f"status {response.status}")
        meter.done()

    return handle


def _handler(profile: str, settings: Settings, meter: Meter) -> Handler:
    match profile:
        case "latency":
            return _noting(meter)
        case "http" if not settings.get("own_client"):
            return _posting(meter, settings["connections"])
        case _:
            return _counting(meter)


async def run(adapter: Adapter, profile: str, expect: int) -> None:
    """Work until stdin ends or a kill."""
    loop, meter = asyncio.get_running_loop(), Meter(expect)
    settings = adapter.profiles[profile]

    async def end() -> None:
        await loop.run_in_executor(None, sys.stdin.read)
        out(event="stamps", at=meter.stamps)
        os._exit(0)  # the peer has no part in how fast it stops

    tasks = set()

    async def ready() -> None:
        out(event="ready")
        await loop.run_in_executor(None, sys.stdin.readline)
        tasks.add(asyncio.create_task(end()))
        tasks.add(asyncio.create_task(meter.tell()))

    await adapter.run_worker(Work(settings, _handler(profile, settings, meter), meter, ready))
