"""Looking for due messages and claiming them.

    poll   every `poll_seconds` a skip scan over all destinations: the backstop of every wake-up
    claim  as soon as a destination may have something and there is room; one statement for all
    note   what a claim reclaimed, so that `suspects.py` looks at it

Invariant: a database error is logged and waited out; it never ends a loop, and a claim whose
answer is lost comes back when its lease ends.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime

import structlog

from app.config import Settings
from app.outbox.store import Claimed, Store, Wanted
from app.relay.lanes import Lanes
from app.relay.leases import Leases
from app.relay.metrics import RelayMetrics

PAUSE_SECONDS = 0.5

logger = structlog.get_logger("app.relay")


class Claiming:
    """The loops that find work."""

    def __init__(
        self,
        store: Store,
        lanes: Lanes,
        leases: Leases,
        metrics: RelayMetrics,
        settings: Settings,
        suspected: Callable[[], None],
    ) -> None:
        self._store, self._lanes, self._leases, self._metrics = store, lanes, leases, metrics
        self._settings, self._poll_seconds = settings, settings.poll_seconds
        self._suspected = suspected
        self.look = asyncio.Event()  # scan now
        self.stopping = asyncio.Event()
        self.claimed = 0
        self.reclaimed = 0
        self._active = 0

    @property
    def busy(self) -> bool:
        """Whether a claim is under way."""
        return self._active > 0

    async def run_claims(self) -> None:
        """Claim until told to stop. The wake-up is cleared before the claim, never after."""
        try:
            await self._store.warm()
        except Exception as error:
            await self.survive("claim", error)
        while not self.stopping.is_set():
            now = time.monotonic()
            next_due = self._lanes.wake_due(now)
            plan = self._lanes.plan(now, len(self._leases))
            if not plan.wanted:
                await self._changed(None if next_due is None else next_due - now)
                continue
            self._active += 1
            try:
                found = await self._store.claim(plan.wanted, limit=plan.limit)
                self._leases.hold(self._lanes.add(plan, found, time.monotonic()))
                self._lanes.wake(found.unfinished)
                self.note(found, "shared")
            except Exception as error:
                self._lanes.put_back(plan)
                await self.survive("claim", error)
            finally:
                self._active -= 1

    async def _changed(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(self._poll_seconds if seconds is None else max(0, seconds)):
                await self._lanes.changed.wait()
        except TimeoutError:
            pass

    async def startable(self, now: datetime | None) -> list[Wanted]:
        """What is due, as much as can start at once; for one round."""
        room, wanted = self._settings.relay_concurrency, []
        for due in sorted(await self._store.due(now), key=lambda due: due.in_seconds):
            slots = min(room, self._settings.endpoint_concurrency)
            if due.destination is not None and due.in_seconds <= 0 and slots > 0:
                wanted.append(Wanted(due.destination, slots))
                room -= slots
        return wanted

    def note(self, found: Claimed, lane: str) -> None:
        """Count what a claim brought and have what it reclaimed looked at."""
        self.claimed += len(found.claims)
        self.reclaimed += len(found.reclaimed)
        self._metrics.claims.labels(lane).inc(len(found.claims))
        for policy in found.passed:
            self._metrics.gaps.labels(policy).inc()
        for lost in found.reclaimed:
            self._suspected()
            kind = lost.destination.partition(":")[0]
            self._metrics.attempts.labels(kind, "lost").inc()
            logger.warning("lease ran out", message_id=str(lost.message_id), attempt=lost.attempt)
            if lost.parked:
                self._metrics.parked.labels("crashed").inc()
                logger.error("parked", message_id=str(lost.message_id), reason="crashed")

    async def run_poll(self) -> None:
        """Scan at least every `poll_seconds`, so that nothing depends on a wake-up."""
        while not self.stopping.is_set():
            try:
                await self.scan()
            except Exception as error:
                await self.survive("scan", error)
            self.look.clear()
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self.look.wait()
            except TimeoutError:
                pass

    async def scan(self) -> None:
        """Wake what is due, note what soon will be; learn whose it is first."""
        found, now = await self._store.due(), time.monotonic()
        self._lanes.tidy()
        for due in found:
            if due.destination is not None and due.tenant is not None:
                self._lanes.learn(due.destination, due.tenant)
            if due.in_seconds <= self._poll_seconds:
                self.due_in(due.destination, due.in_seconds, now)
        self._metrics.in_flight.set(len(self._leases))

    def due_in(self, destination: str | None, seconds: float, now: float | None = None) -> None:
        """Something of that destination, or a suspect (None), is due in some seconds."""
        if destination is None:
            if seconds <= 0:
                self._suspected()
        elif seconds <= 0:
            self._lanes.wake((destination,))
        else:
            self._lanes.wake_at((time.monotonic() if now is None else now) + seconds, destination)
            self._lanes.changed.set()

    async def survive(self, where: str, error: Exception) -> None:
        """Count it, say it, wait a little."""
        self._metrics.errors.labels(where).inc()
        logger.warning(f"{where} failed, will be repeated", error=repr(error)[:300])
        await asyncio.sleep(PAUSE_SECONDS)
