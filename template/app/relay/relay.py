"""The relay: claims due messages, has them delivered, settles the outcomes.

    wake-up or poll -> Claiming -> Lanes -> senders (Courier) -> Settler
                       Suspects: what a relay has lost before
                       Leases: extended until settled

Invariants: no database error and no deliverer ends it; `stop` claims nothing more, gives back what
was not started, waits for what is in flight and settles it. Any number of relays may run at once on
PostgreSQL. Where to change what: fairness in `lanes.py`, statements in `outbox/statements_*.py`.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from random import Random

import structlog

from app.config import Settings
from app.db.engine import Database
from app.outbox.deliverer import Deliverer
from app.outbox.store import Store
from app.relay.claiming import Claiming
from app.relay.counts import Counts
from app.relay.courier import Courier
from app.relay.gate import Gate
from app.relay.lane import Held
from app.relay.lanes import Lanes
from app.relay.leases import Leases
from app.relay.metrics import RelayMetrics
from app.relay.sending import Loop, Sending, cancel, until
from app.relay.settler import WRITERS, Settler
from app.relay.stretch import Stretch
from app.relay.suspects import TOGETHER, Suspects
from app.relay.upkeep import Upkeep
from app.relay.wakeup import Listener

SETTLE_SECONDS = 5.0  # after the drain budget, to write what came of it

logger = structlog.get_logger("app.relay")


class Relay:
    """One relay. `run` and `drain` may be called once; `run_once` any number of times."""

    def __init__(
        self,
        database: Database,
        deliverers: Mapping[str, Deliverer],
        settings: Settings,
        metrics: RelayMetrics,
        random: Random | None = None,
    ) -> None:
        self._database, self._settings = database, settings
        self._store = Store(database)
        courier, gate = Courier(deliverers, metrics, random or Random()), Gate()  # noqa: S311
        self._lanes = Lanes(
            settings.relay_concurrency, settings.endpoint_concurrency, settings.claim_batch,
            courier.room,
        )  # fmt: skip
        self._leases = Leases(self._store, settings, self._lanes.changed.set)
        self._settler = Settler(
            self._store, self._leases, metrics, settings.claim_batch, self._due_in
        )
        self._sending = Sending(
            self._store, self._lanes, self._leases, self._settler, courier, gate
        )
        self._claiming = Claiming(
            self._store, self._lanes, self._leases, metrics, settings, self._suspected
        )
        self._suspects = Suspects(
            self._store, self._leases, gate, settings, self._claiming, self._sending
        )
        self._upkeep = Upkeep(database, self._leases, metrics)

    @property
    def counts(self) -> Counts:
        """What this relay has done so far."""
        done = self._settler.counts
        return Counts(
            self._claiming.claimed, done["delivered"], done["failed"], done["deferred"],
            done["parked"], done["lost"], self._claiming.reclaimed,
        )  # fmt: skip

    def wake(self, destinations: Iterable[str]) -> None:
        """Something may be due there; never raises, never waits."""
        self._lanes.wake(destinations)

    def look(self) -> None:
        """Something may be due somewhere."""
        self._claiming.look.set()

    def stop(self) -> None:
        """Make `run` end in an orderly way, within `shutdown_seconds` and a little."""
        self._claiming.stopping.set()
        self._suspects.stopping.set()
        self._lanes.changed.set()
        self._claiming.look.set()

    async def run(self) -> Counts:
        """Relay until `stop`. Raises only if a loop ends by a fault in this program itself."""
        self._database.on_commit.append(self.wake)
        finders, helpers, senders = self._start()
        loops = [*finders, *helpers, *senders]
        told = asyncio.create_task(self._claiming.stopping.wait())
        try:
            await asyncio.wait([told, *loops], return_when=asyncio.FIRST_COMPLETED)
            broken = [loop for loop in loops if loop.done()]
            self.stop()
            await self._let_end(finders)
            await cancel(senders)
            await cancel(helpers)
            await self._settle_the_rest()
            for loop in broken:
                loop.result()  # better no relay than half of one
        finally:
            self._database.on_commit.remove(self.wake)
            told.cancel()
            await cancel(loops)
            await self._store.close()
        return self.counts

    async def drain(self) -> Counts:
        """Relay until nothing is due any more, then stop."""
        run = asyncio.create_task(self.run())
        try:
            before = -1
            while not run.done() and before != self._claiming.claimed + self._claiming.reclaimed:
                before = self._claiming.claimed + self._claiming.reclaimed
                await self._claiming.scan()
                await until(self._idle, math.inf)
        finally:
            self.stop()
        return await run

    def _idle(self) -> bool:
        working = self._lanes.hungry or len(self._leases) or len(self._settler)
        return self._claiming.stopping.is_set() or not (working or self._finding)

    async def run_once(self, now: datetime | None = None) -> Counts:
        """One round: what is due, as much as can start at once; then each suspect alone."""
        found = await self._store.claim(await self._claiming.startable(now), now)
        held = [Held(claim, claim.claimed_at) for claim in found.claims]
        self._leases.hold(held)
        self._claiming.note(found, "shared")
        await asyncio.gather(*map(self._sending.deliver, held))
        await self._settler.flush(now)
        while await self._suspects.round(now):
            await self._settler.flush(now)
        return self.counts

    async def close(self) -> None:
        """Close the connections; needed only after `run_once`."""
        await self._store.close()

    def _start(self) -> tuple[list[Loop], list[Loop], list[Loop]]:
        start = asyncio.create_task
        claiming = self._claiming
        finders = [start(claiming.run_claims()), start(claiming.run_poll())]
        suspects = self._suspects
        lone = [start(suspects.run_again())]
        lone += [start(suspects.run_fresh()) for _ in range(TOGETHER)]
        helpers = [start(self._settler.run()) for _ in range(WRITERS)]
        helpers += [start(loop) for loop in self._upkeep.loops()]
        if self._settings.listen and not self._database.is_sqlite:
            helpers.append(start(Listener(self._database, self.wake, self.look).run()))
        senders = [start(self._sending.run()) for _ in range(self._settings.relay_concurrency)]
        stretch = start(Stretch(self._lanes, self._sending).run())
        return finders, helpers, [*lone, *senders, stretch]

    async def _let_end(self, finders: list[Loop]) -> None:
        """No new claims, what was not started is given back, what is in flight may end."""
        time, budget = asyncio.get_running_loop().time, self._settings.shutdown_seconds
        deadline = time() + budget
        await asyncio.wait(finders, timeout=budget / 4)
        await self._sending.release(self._lanes.withdraw(), deadline - time())
        await until(lambda: not (self._lanes.held or self._finding), deadline - time())

    async def _settle_the_rest(self) -> None:
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                await self._settler.flush()
                await self._sending.give_back()
        except TimeoutError:
            logger.error(
                "outcomes not written; they will be delivered again", count=len(self._settler)
            )

    def _suspected(self) -> None:
        self._suspects.wake()

    @property
    def _finding(self) -> bool:
        return self._claiming.busy or self._suspects.busy

    def _due_in(self, destination: str, seconds: float) -> None:
        if seconds <= 2 * self._settings.poll_seconds:  # the poll sees what is due later
            self._claiming.due_in(destination, seconds)
