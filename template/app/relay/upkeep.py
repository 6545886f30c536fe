"""What a relay does beside delivering: extend leases, sample gauges, prune.

Invariant: each loop survives every error and goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from app.db.engine import Database
from app.outbox.prune import prune
from app.relay.gauges import GAUGES_SECONDS, sample
from app.relay.leases import Leases
from app.relay.metrics import RelayMetrics

PRUNE_SECONDS = 3600.0
PAUSE_SECONDS = 1.0

logger = structlog.get_logger("app.relay")


class Upkeep:
    """The loops, one each."""

    def __init__(self, database: Database, leases: Leases, metrics: RelayMetrics) -> None:
        self._database, self._leases, self._metrics = database, leases, metrics

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """To be run as tasks and cancelled at the end."""
        return [
            self._every("extend", self._leases.beat_seconds, self._leases.extend),
            self._every("gauges", GAUGES_SECONDS, self._sample),
            self._every("prune", PRUNE_SECONDS, self._prune),
        ]

    async def _every(self, name: str, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        pause = min(seconds, PAUSE_SECONDS)
        while True:
            await asyncio.sleep(pause)
            try:
                await act()
                pause = seconds
            except Exception as error:
                pause = min(seconds, PAUSE_SECONDS)
                self._metrics.errors.labels(name).inc()
                logger.warning(f"{name} failed, will be repeated", error=repr(error)[:300])

    async def _sample(self) -> None:
        await sample(self._database, self._metrics)

    async def _prune(self) -> None:
        report = await prune(self._database, self._database.settings)
        logger.info("pruned", **report.as_fields())
