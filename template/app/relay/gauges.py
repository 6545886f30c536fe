"""The outbox as numbers: how much is owed, how much is parked, how long the oldest has been due.

A server without a relay samples them as well (`watching`). Else they would vanish together with the
relays, and the alert that no relay runs could never fire. Invariant: sampled in a rhythm of their
own and not when Prometheus asks, so that monitoring never loads the database.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog
from prometheus_client import CollectorRegistry

from app.db.engine import Database
from app.outbox.backlog import backlog
from app.relay.metrics import RelayMetrics

GAUGES_SECONDS = 15.0
PAUSE_SECONDS = 1.0

logger = structlog.get_logger("app.relay")


async def sample(database: Database, metrics: RelayMetrics) -> None:
    """Set the gauges to the present numbers."""
    async with database.read() as session:
        counted = await backlog(session)
    metrics.messages.labels("pending").set(counted.pending)
    metrics.messages.labels("parked").set(counted.parked)
    metrics.replays.set(counted.replays)
    metrics.blocked_keys.set(counted.blocked_keys)
    metrics.oldest_due.set(counted.oldest_due_seconds)


@asynccontextmanager
async def watching(database: Database, registry: CollectorRegistry) -> AsyncGenerator[None]:
    """Sample for as long as the block lasts, in a process that does not relay."""
    task = asyncio.create_task(_sample_for_ever(database, RelayMetrics(registry)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _sample_for_ever(database: Database, metrics: RelayMetrics) -> None:
    while True:
        pause = GAUGES_SECONDS
        try:
            await sample(database, metrics)
        except Exception as error:
            pause = PAUSE_SECONDS
            metrics.errors.labels("gauges").inc()
            logger.warning("gauges failed, will be repeated", error=repr(error)[:300])
        await asyncio.sleep(pause)
