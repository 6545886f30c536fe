"""Writes outcomes, many at once: every 20 ms, or once a batch is full or the next of a key waits.

Invariant: an outcome is written or counted as lost, never forgotten: a settle that fails is
repeated until it succeeds (the token makes that safe) or the relay has no time left; then the
leases run out and another relay delivers again.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import structlog
from msgspec import Struct
from sqlalchemy.exc import InterfaceError, ProgrammingError

from app.outbox.message import Claim, ParkedReason, Result
from app.outbox.policy import GiveBack, Park, RetryIn, Sent
from app.outbox.settlement import without_answer
from app.outbox.store import Settlement, Store
from app.relay.courier import Ended
from app.relay.lane import Held
from app.relay.leases import Leases
from app.relay.metrics import RelayMetrics

GATHER_SECONDS = 0.02
WRITERS = 2  # while the database works on one batch, the next is made ready
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0
# What a driver raises for a value that it can't send, alone in its batch.
UNSTORABLE = (
    TypeError, ValueError, AttributeError, asyncpg.DataError, InterfaceError, ProgrammingError,
)  # fmt: skip

logger = structlog.get_logger("app.relay")


class Finished(Struct, frozen=True):
    """An attempt that is over; times are monotonic."""

    held: Held
    ended: Ended
    started: float
    stopped: float


class Settler:
    """The outcomes that wait to be written, and what has been written."""

    def __init__(
        self,
        store: Store,
        leases: Leases,
        metrics: RelayMetrics,
        batch: int,
        due_in: Callable[[str, float], None],
    ) -> None:
        self._store, self._leases, self._metrics = store, leases, metrics
        self._batch = self._size = batch
        self._pause = FIRST_PAUSE_SECONDS
        self._repeated: set[Held] = set()
        self._unstorable: set[Held] = set()
        self._due_in = due_in
        self._waiting: list[Finished] = []
        self._some, self._full = asyncio.Event(), asyncio.Event()
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, finished: Finished) -> None:
        """To be written soon."""
        self._waiting.append(finished)
        self._some.set()
        if len(self._waiting) >= self._batch or finished.held.claim.sequence is not None:
            self._full.set()  # in an ordered lane the next one may not go before this is written

    def hurry(self) -> None:
        """Write what waits, without waiting for more."""
        if self._waiting:
            self._full.set()

    async def run(self) -> None:
        """Write until cancelled; `WRITERS` of these run side by side."""
        while True:
            await self._some.wait()
            if not self._full.is_set():
                try:
                    async with asyncio.timeout(GATHER_SECONDS):
                        await self._full.wait()
                except TimeoutError:
                    pass
            if self._waiting:  # not taken by the other one meanwhile
                await self._write_batch(None)

    async def flush(self, now: datetime | None = None) -> None:
        """Write everything that waits; comes back when it is written, however long that takes."""
        while self._waiting:
            await self._write_batch(now)

    async def _write_batch(self, now: datetime | None) -> None:
        batch = self._take()
        try:
            await self._write(batch, now)
        except Exception as error:
            self._try_again(batch)
            if len(batch) == 1 and isinstance(error, UNSTORABLE):
                self._unstorable.add(batch[0].held)
            self._metrics.errors.labels("settle").inc()
            logger.warning("settle failed, will be repeated", error=repr(error)[:300])
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        except BaseException:
            self._try_again(batch)
            raise
        else:
            self._pause, self._size = FIRST_PAUSE_SECONDS, min(2 * self._size, self._batch)

    def _take(self) -> list[Finished]:
        batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
        self._tell()
        return batch

    def _tell(self) -> None:
        """Let the writers know whether there is something, and whether it is a batch."""
        for event, least in ((self._some, 1), (self._full, self._batch)):
            if len(self._waiting) >= least:
                event.set()
            else:
                event.clear()

    def _try_again(self, batch: list[Finished]) -> None:
        """At the end and in smaller portions, so that one bad row can't hold back the others."""
        self._repeated.update(finished.held for finished in batch)
        self._waiting += batch
        self._size = max(1, self._size // 2)
        self._tell()

    async def _write(self, batch: Sequence[Finished], now: datetime | None) -> None:
        clock = time.monotonic()
        settlements = [self._settlement(finished, clock) for finished in batch]
        written = await self._store.settle(settlements, now)
        lost: Sequence[Finished] = ()
        if len(written) < len(batch):
            written |= await self._written_before(batch, written)
            lost = [f for f in batch if f.held.claim.message_id not in written]
        held = [f.held for f in batch]
        self._leases.drop(held)
        self._repeated.difference_update(held)
        self._unstorable.difference_update(held)
        done = [f for f in batch if f.held.claim.message_id in written] if lost else batch
        tally = Counter([self._note(finished) for finished in done])
        for (kind, outcome), count in tally.items():  # a metric costs as much as a delivery
            self.counts[outcome] += count
            metrics = self._metrics
            if outcome == "deferred":
                metrics.deferrals.labels(kind).inc(count)
            else:
                metrics.attempts.labels(kind, outcome).inc(count)
        for finished in lost:
            self._lost(finished.held.claim)

    async def _written_before(self, batch: Sequence[Finished], written: set[UUID]) -> set[UUID]:
        """A settle whose answer was lost with the connection did write: the log has its line."""
        missing = [f.held for f in batch if f.held.claim.message_id not in written]
        repeated = [held.claim for held in missing if held in self._repeated]
        return await self._store.settled_before(repeated)

    def _lost(self, claim: Claim) -> None:
        self.counts["lost"] += 1
        self._metrics.settle_lost.inc()
        logger.warning("settle lost", message_id=str(claim.message_id), attempt=claim.attempt)

    def _note(self, finished: Finished) -> tuple[str, str]:
        """What has been written: kind and outcome, for the counters."""
        claim, (outcome, transition) = finished.held.claim, finished.ended
        if claim.sequence is not None:
            self._due_in(claim.destination, 0.0)  # the next of its key may go
        match transition:
            case Sent():
                pass
            case Park(reason) | GiveBack(_, ParkedReason() as reason):
                self.counts["parked"] += 1
                self._metrics.parked.labels(reason.value).inc()
                logger.warning("parked", message_id=str(claim.message_id), reason=reason.value)
            case RetryIn(seconds) | GiveBack(seconds):
                self._due_in(claim.destination, seconds)
        return claim.destination.partition(":")[0], type(outcome).__name__.lower()

    def _settlement(self, finished: Finished, clock: float) -> Settlement:
        claim, (outcome, transition) = finished.held.claim, finished.ended
        duration = finished.stopped - finished.started
        result = Result(claim, outcome, clock - finished.started, duration)
        settlement = Settlement(result, transition)
        return without_answer(settlement) if finished.held in self._unstorable else settlement
