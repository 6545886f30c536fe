"""The senders: coroutines with one message at a time each; how many, see `stretch.py`.

No task per message: making one costs more than everything else here. Invariant: each claim that is
taken ends in the settler, is released, or was taken over by another relay.
"""

import asyncio
import time
from collections.abc import Callable
from itertools import takewhile

import structlog

from app.outbox.store import Store
from app.relay.batches import Finished
from app.relay.courier import Courier
from app.relay.gate import Gate
from app.relay.lane import Held
from app.relay.lanes import Lanes
from app.relay.leases import Leases
from app.relay.settler import Settler

BURST = 32  # messages that a sender may end without the event loop getting its turn
CHECK_SECONDS = 0.01
CHECKS = 3

Loop = asyncio.Task[None]

logger = structlog.get_logger("app.relay")


class Sending:
    """From a held claim to an outcome in the settler."""

    def __init__(
        self,
        store: Store,
        lanes: Lanes,
        leases: Leases,
        settler: Settler,
        courier: Courier,
        gate: Gate,
    ) -> None:
        self._store, self._lanes, self._leases = store, lanes, leases
        self._settler, self._courier, self._gate = settler, courier, gate
        self._out: dict[Held, float] = {}  # since when, the oldest first
        self._unstarted: list[Held] = []  # taken, then the relay stopped

    def out_since(self, moment: float) -> int:
        """How many requests that began before `moment` have no outcome yet."""
        return sum(1 for _ in takewhile(lambda began: began <= moment, self._out.values()))

    async def run(self, needed: Callable[[], bool] = lambda: True) -> None:
        """One sender, until cancelled, or until it is not needed after a message."""
        burst = 0
        while needed():
            held = await self._lanes.take()
            try:
                await self.deliver(held)
            finally:
                self._lanes.done(held)
            if not self._lanes.held:
                self._settler.hurry()  # nothing else will come to be written with it
            burst += 1
            if burst % BURST == 0:
                await asyncio.sleep(0)

    async def deliver(self, held: Held) -> None:
        """One attempt, as soon as no suspect wants to be alone."""
        try:
            await self._gate.enter()
        except asyncio.CancelledError:
            self.withdraw(held)
            raise
        try:
            await self.attempt(held)
        finally:
            self._gate.leave()

    async def attempt(self, held: Held) -> None:
        """One attempt, unless its lease might end before the request does."""
        if not self._leases.may_start(held):
            await self.release([held])
            return
        started = self._out[held] = time.monotonic()
        try:
            ended = await self._courier.attempt(held.claim)
        except asyncio.CancelledError as stop:
            ended = self._courier.interrupted(held.claim, stop)
            self._settler.add(Finished(held, ended, started, time.monotonic()))
            raise
        finally:
            del self._out[held]
        self._settler.add(Finished(held, ended, started, time.monotonic()))

    def withdraw(self, held: Held) -> None:
        """It will not be started; `give_back` releases it."""
        self._unstarted.append(held)

    async def give_back(self) -> None:
        """Release what was taken and will not be started."""
        if self._unstarted:
            unstarted, self._unstarted = self._unstarted, []
            await self.release(unstarted)

    async def release(self, held: list[Held], seconds: float | None = None) -> None:
        """Give back what was not started, within so long; the attempt is not spent."""
        self._leases.drop(held)
        try:
            async with asyncio.timeout(seconds):
                await self._store.release([each.claim for each in held])
        except Exception as error:  # then their leases run out
            logger.warning("release failed", claims=len(held), error=repr(error)[:300])


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition that holds at a few looks in a row; False when time is up."""
    held, deadline = 0, time.monotonic() + seconds
    while held < CHECKS:
        if time.monotonic() >= deadline:
            return False
        held = held + 1 if condition() else 0
        await asyncio.sleep(CHECK_SECONDS)
    return True


async def cancel(loops: list[Loop]) -> None:
    """Cancel tasks and wait until they have ended; how they ended is not asked."""
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
