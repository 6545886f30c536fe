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
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, ProgrammingError

from app.outbox.message import Claim, ParkedReason, Result
from app.outbox.policy import GiveBack, Park, RetryIn, Sent
from app.outbox.settlement import without_answer
from app.outbox.store import Settlement, Store
from app.relay.batches import Batches, Finished
from app.relay.lane import Held
from app.relay.leases import Leases
from app.relay.metrics import RelayMetrics

GATHER_SECONDS = 0.02
WRITERS = 2  # while the database works on one batch, the next is made ready
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0
# What is raised for a value that can't be sent or stored: some row's fault, not the connection's.
UNSTORABLE = (
    TypeError, ValueError, AttributeError, InterfaceError, ProgrammingError, DataError,
    IntegrityError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError,
)  # fmt: skip

logger = structlog.get_logger("app.relay")


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
        self._pause = FIRST_PAUSE_SECONDS
        self._repeated: set[Held] = set()
        self._unstorable: set[Held] = set()
        self._due_in = due_in
        self._batches = Batches(batch)
        self.add, self.hurry = self._batches.add, self._batches.hurry
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._batches)

    async def run(self) -> None:
        """Write until cancelled; `WRITERS` of these run side by side."""
        batches = self._batches
        while True:
            await batches.some.wait()
            if not batches.now.is_set():
                try:
                    async with asyncio.timeout(GATHER_SECONDS):
                        await batches.now.wait()
                except TimeoutError:
                    pass
            if batches.some.is_set():  # not taken by the other one meanwhile
                await self._write_batch(None)

    async def flush(self, now: datetime | None = None) -> None:
        """Write everything that waits; comes back when it is written, however long that takes."""
        while self._batches.some.is_set():
            await self._write_batch(now)

    async def _write_batch(self, now: datetime | None) -> None:
        batch = self._batches.take()
        try:
            await self._write(batch, now)
        except UNSTORABLE as error:
            if len(batch) > 1:
                self._failed(batch, error)
                self._batches.halve(batch)
            else:
                self._unstorable.add(batch[0].held)
                await self._try_again(batch, error)
        except Exception as error:
            await self._try_again(batch, error)
        except BaseException:
            self._repeated.update(finished.held for finished in batch)
            self._batches.put_back(batch)
            raise
        else:
            self._pause = FIRST_PAUSE_SECONDS

    async def _try_again(self, batch: list[Finished], error: Exception) -> None:
        self._failed(batch, error)
        self._batches.put_back(batch)
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def _failed(self, batch: list[Finished], error: Exception) -> None:
        self._repeated.update(finished.held for finished in batch)
        self._metrics.errors.labels("settle").inc()
        logger.warning("settle failed, will be repeated", error=repr(error)[:300])

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
