"""What a relay does beside delivering: extend leases, sample gauges, prune, finish replays.

Invariant: each loop survives every error and goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from app.db.engine import Database
from app.outbox import replay
from app.outbox.prune import prune
from app.relay.gauges import GAUGES_SECONDS, sample
from app.relay.leases import Leases
from app.relay.metrics import RelayMetrics

PRUNE_SECONDS = 3600.0
PRUNE_BUDGET_SECONDS = 60.0  # of one run; what is left goes in the next, after as long a rest
REPLAYS_SECONDS = 5.0
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
            self._every("replays", REPLAYS_SECONDS, self._finish_replays),
        ]

    async def _every(
        self, name: str, seconds: float, act: Callable[[], Awaitable[float | None]]
    ) -> None:
        """Act again and again; what `act` answers is a shorter pause, for once."""
        pause = min(seconds, PAUSE_SECONDS)
        while True:
            await asyncio.sleep(pause)
            try:
                pause = await act() or seconds
            except Exception as error:
                pause = min(seconds, PAUSE_SECONDS)
                self._metrics.errors.labels(name).inc()
                logger.warning(f"{name} failed, will be repeated", error=repr(error)[:300])

    async def _sample(self) -> None:
        await sample(self._database, self._metrics)

    async def _prune(self) -> float | None:
        report = await prune(self._database, self._database.settings, seconds=PRUNE_BUDGET_SECONDS)
        for table, count in report.as_fields().items():
            self._metrics.pruned.labels(table).inc(count)
        logger.info("pruned", **report.as_fields())
        return None if report.finished else PRUNE_BUDGET_SECONDS

    async def _finish_replays(self) -> None:
        while await replay.step(self._database):
            pass
