"""Messages whose earlier claim was lost: each might be what ended its relay.

    lost once        a slot of its own beside all other work; a few at a time, few per destination
    lost again       alone: the door is closed until nothing else is in flight (`Gate`), the row
                     says so (`alone`), and only then does another loss count towards `crashed`

Invariants: no innocent message is parked, however often relays are killed for other reasons. The
door stays closed for a short while only (twice as long with each loss) and never for more than half
of the time, so suspects delay no other message for long. A process proves first that it can live
(`WARM_UP_SECONDS`), or a relay that dies at each start would blame what it begins with.
"""

import asyncio
from collections import Counter
from datetime import datetime

import structlog

from app.config import Settings
from app.outbox.store import Store
from app.relay.claiming import Claiming
from app.relay.gate import Gate
from app.relay.lane import Held
from app.relay.leases import Leases
from app.relay.sending import Sending

TOGETHER = 8
PER_DESTINATION = 2
ALONE_SECONDS = 0.25  # the first time; doubles with each loss
WARM_UP_SECONDS = 3.0

logger = structlog.get_logger("app.relay")


class Suspects:
    """The loops that deliver them."""

    def __init__(
        self,
        store: Store,
        leases: Leases,
        gate: Gate,
        settings: Settings,
        claiming: Claiming,
        sending: Sending,
    ) -> None:
        self._store, self._leases, self._gate = store, leases, gate
        self._longest = settings.request_timeout_seconds / 2  # once for those in flight, once alone
        self._claiming, self._sending = claiming, sending
        self._fresh, self._again = asyncio.Event(), asyncio.Event()
        self._busy: Counter[str] = Counter()
        self._claim_lock, self._alone = asyncio.Lock(), asyncio.Lock()
        self._active = 0
        self.stopping = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether one is under way, or might be due."""
        due = self._fresh.is_set() or self._again.is_set()
        return self._active > 0 or (due and not self.stopping.is_set())

    def wake(self) -> None:
        """One might be due."""
        self._fresh.set()
        self._again.set()

    async def run_fresh(self) -> None:
        """One slot of several for those that were lost once."""
        await self._run(self._fresh, again=False)

    async def run_again(self) -> None:
        """The one slot for those that were lost again."""
        await asyncio.sleep(WARM_UP_SECONDS)
        await self._run(self._again, again=True)

    async def _run(self, woken: asyncio.Event, *, again: bool) -> None:
        while not self.stopping.is_set():
            await woken.wait()
            self._active += 1
            woken.clear()
            try:
                found, held = await self._claim(None, again)
                if found:
                    woken.set()  # there may be more, and other slots are free
                for each in held:
                    await self._end(each, again)
            except Exception as error:
                await self._claiming.survive("claim", error)
            finally:
                self._active -= 1

    async def round(self, now: datetime | None = None) -> bool:
        """One of either kind, from claim to outcome; whether there was one."""
        found, held = await self._claim(now, None)
        for each in held:
            await self._end(each, again=True)
        return found

    async def _claim(self, now: datetime | None, again: bool | None) -> tuple[bool, list[Held]]:
        async with self._claim_lock:
            busy = [name for name, count in self._busy.items() if count >= PER_DESTINATION]
            found = await self._store.claim_lone(now, again, busy)
            self._busy.update(claim.destination for claim in found.claims)
        held = [Held(claim, claim.claimed_at) for claim in found.claims]
        self._leases.hold(held)
        self._claiming.note(found, "lone")
        return bool(found.claims or found.reclaimed), held

    async def _end(self, held: Held, again: bool) -> None:
        idle = not self._gate.in_flight and self._busy.total() == 1
        try:
            if again or (idle and not self._alone.locked()):
                await self._in_turn(held)
            else:
                await self._sending.deliver(held)
        finally:
            self._busy[held.claim.destination] -= 1
            self._busy += Counter()  # forgets the zeros

    async def _in_turn(self, held: Held) -> None:
        try:
            await self._alone.acquire()
        except asyncio.CancelledError:
            self._sending.withdraw(held)
            raise
        try:
            await self._deliver_alone(held)
        finally:
            self._alone.release()

    async def _deliver_alone(self, held: Held) -> None:
        """With nothing beside it, for as long as its patience lasts; then among the others."""
        patience = min(self._longest, ALONE_SECONDS * 2.0 ** (held.claim.losses - 1))
        attempt: asyncio.Task[None] | None = None
        try:
            if await self._gate.close(patience):
                await self._mark(held, alone=True)
                attempt = asyncio.ensure_future(self._sending.attempt(held))
                await asyncio.wait({attempt}, timeout=patience)
                if not attempt.done():
                    await self._mark(held, alone=False)
        except asyncio.CancelledError:
            if attempt is None:
                self._sending.withdraw(held)
            else:
                attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)
            raise
        finally:
            closed_seconds = self._gate.open()
        await (self._sending.deliver(held) if attempt is None else attempt)
        await asyncio.sleep(closed_seconds)

    async def _mark(self, held: Held, *, alone: bool) -> None:
        try:
            if not await self._store.set_alone(held.claim, alone=alone):
                held.taken_over = True  # and is not started
        except Exception as error:  # delivered all the same
            logger.warning("alone or not could not be written", error=repr(error)[:300])
