"""Relays over real databases, with deliverers without network."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from app.config import Settings
from app.db.engine import Database
from app.outbox.deliverer import Deliverer
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay

MakeRelay = Callable[..., Relay]
DEADLINE_SECONDS = 20.0


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def make_relay(
    database: Database, settings: Settings, registry: CollectorRegistry
) -> AsyncIterator[MakeRelay]:
    """Makes relays of this database; settings can be changed by keyword."""
    metrics, made = RelayMetrics(registry), []

    def make(deliverers: Mapping[str, Deliverer], **changes: object) -> Relay:
        changed = replace(settings, **changes)
        database.settings = changed
        made.append(Relay(database, deliverers, changed, metrics))
        return made[-1]

    yield make
    for relay in made:
        await relay.close()


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[Relay]:
    """A relay that runs, and is stopped in an orderly way at the end."""
    task = asyncio.create_task(relay.run())
    try:
        yield relay
    finally:
        relay.stop()
        await task


Running = Callable[[Relay], AbstractAsyncContextManager[Relay]]


async def eventually(condition: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until it holds; fail when time is up."""
    async with asyncio.timeout(seconds):
        while True:
            answer = condition()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(0.005)
