"""The crash run: events go in, faults happen in random order, and the ledger is reckoned.

    python -m tests.crash      the long form; prints the ledger, exit code 1 if it is broken

Every relay that is killed has claimed something since its start and has requests out.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import Random

import httpx
from sqlalchemy import text

from tests.crash.ledger import Ledger, reckon
from tests.crash.plant import (
    LEASE_SECONDS,
    PATHS,
    START_SECONDS,
    Place,
    Plant,
    fetched,
    running_plant,
)

BATCH = 10
REQUEST_SECONDS = 5.0
BACKENDS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
READ_ONLY = 'ALTER DATABASE "{name}" SET default_transaction_read_only = on'
WRITABLE = 'ALTER DATABASE "{name}" RESET default_transaction_read_only'


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what."""

    events: int
    relay_kills: int
    api_kills: int = 1
    stalls: int = 1
    restarts: int = 1
    cuts: int = 1
    failovers: int = 1
    silences: int = 1
    relays: int = 2
    seed: int = 1
    drain_seconds: float = 120.0


SHORT = Plan(events=400, relay_kills=3)
LONG = Plan(
    events=10_000, relay_kills=50, api_kills=5, stalls=20, restarts=3, cuts=5, failovers=3,
    silences=5, relays=3, drain_seconds=600.0,
)  # fmt: skip


@dataclass(slots=True)
class Storm:
    """One run."""

    plant: Plant
    plan: Plan
    random: Random
    said: Callable[[str], None]
    accepted: set[int] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    _allowed: int = 0
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> Ledger:
        """Publish and break at the same time; then wait until nothing is owed."""
        steps = self._steps()
        self.random.shuffle(steps)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._publish())
            for number, step in enumerate(steps, start=1):
                self._allowed = self.plan.events * number // len(steps)
                self._more.set()
                await step()
                self.said(f"{number} of {len(steps)} faults, {len(self.accepted)} events accepted")
        await self._drained()
        for relay in self.plant.relays:
            assert relay.process is not None
            code = await asyncio.to_thread(relay.process.stop)
            assert code == 0, f"a relay ended with {code}"
        ledger = await reckon(
            self.plant.database, self.accepted, self.plant.receiver.requests, self.faults
        )
        ledger.settle_lost = self.plant.logged("settle lost")
        return ledger

    def _steps(self) -> list[Callable[[], Awaitable[None]]]:
        plan = self.plan
        return [
            *[self._kill_relay] * plan.relay_kills, *[self._kill_api] * plan.api_kills,
            *[self._stall] * plan.stalls, *[self._restart] * plan.restarts,
            *[self._cut] * plan.cuts, *[self._fail_over] * plan.failovers,
            *[self._silence] * plan.silences,
        ]  # fmt: skip

    async def _publish(self) -> None:
        """Each POST is repeated with its key until it is answered, through whatever happens."""
        base = self.plant.api.probe.removesuffix("/health/ready")
        headers = {"Authorization": f"Bearer {self.plant.key}"}
        with_orders = find_spec("app.orders") is not None
        async with httpx.AsyncClient(trust_env=False, base_url=base, headers=headers) as client:
            for first in range(0, self.plan.events, BATCH):
                while first >= self._allowed:
                    self._more.clear()
                    await self._more.wait()
                numbers = range(first, min(first + BATCH, self.plan.events))
                if with_orders and first % (5 * BATCH) == 0:
                    await asyncio.gather(*(self._order(client, number) for number in numbers))
                else:
                    await self._events(client, numbers)

    async def _events(self, client: httpx.AsyncClient, numbers: range) -> None:
        events = [{"type": f"crash.t{n % len(PATHS)}", "data": {"number": n}} for n in numbers]
        await _posted(client, "/api/events", {"events": events}, f"batch-{numbers[0]}")
        self.accepted.update(numbers)

    async def _order(self, client: httpx.AsyncClient, number: int) -> None:
        body = {"customer": str(number), "total": "1.00"}
        await _posted(client, "/orders", body, f"order-{number}")
        self.accepted.add(number)

    async def _kill_relay(self) -> None:
        relay = self.random.choice(self.plant.relays)
        if not await self._works(relay):
            self.faults["kills of idle relays"] += 1
        await self._requests_are_out()
        relay.kill()
        relay.start()
        await relay.up()
        self.faults["relays killed"] += 1

    async def _works(self, relay: Place) -> bool:
        """Wait until it has claimed since its start, if there is anything left to claim."""
        for _ in range(100):
            page = await fetched(relay.probe) or ""
            claimed = re.findall(r"^relay_claims_total\{.*\} ([0-9.]+)", page, re.MULTILINE)
            if sum(map(float, claimed)) > 0:
                return True
            await asyncio.sleep(0.05)
        return False

    async def _requests_are_out(self) -> None:
        """Wait for one more request, then for a part of the time that it takes."""
        receiver = self.plant.receiver
        try:
            await receiver.wait_for(len(receiver.requests) + 1, timeout=REQUEST_SECONDS)
        except AssertionError:
            self.faults["kills while nothing was out"] += 1
        await asyncio.sleep(0.05 * self.random.random())

    async def _kill_api(self) -> None:
        self.plant.api.kill()
        self.plant.api.start()
        await self.plant.api.up()
        self.faults["API killed"] += 1

    async def _stall(self) -> None:
        relay = self.random.choice(self.plant.relays)
        await self._works(relay)
        assert relay.process is not None
        await self._requests_are_out()
        relay.process.freeze()
        await asyncio.sleep(LEASE_SECONDS + 1)
        relay.process.wake()
        self.faults["relays stalled"] += 1

    async def _restart(self) -> None:
        await asyncio.to_thread(self.plant.server.stop)
        await asyncio.to_thread(self.plant.server.start)
        self.faults["database crashes"] += 1

    async def _cut(self) -> None:
        await self.plant.statement(BACKENDS.format(name=self._name))
        self.faults["backends terminated"] += 1

    async def _fail_over(self) -> None:
        """To a server that takes no writes, and back."""
        end = BACKENDS.format(name=self._name)
        await self.plant.statement(READ_ONLY.format(name=self._name), end)
        await asyncio.sleep(1)
        await self.plant.statement(WRITABLE.format(name=self._name), end)
        self.faults["failovers to read-only"] += 1

    async def _silence(self) -> None:
        """The last relay's connections are there and say nothing, for longer than a lease."""
        self.plant.proxy.silence()
        await asyncio.sleep(LEASE_SECONDS + 1)
        self.plant.proxy.speak()
        self.plant.proxy.cut()
        self.faults["connections half open"] += 1

    @property
    def _name(self) -> str:
        return str(self.plant.database.writer.url.database)

    async def _drained(self) -> None:
        """Wait until nothing is owed; what is still owed then, the ledger calls stuck."""
        owed = "SELECT count(*) FROM outbox_messages WHERE status IN ('pending', 'claimed')"
        try:
            async with asyncio.timeout(self.plan.drain_seconds):
                while await _scalar(self.plant, owed):  # noqa: ASYNC110 - other processes
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pass


async def _scalar(plant: Plant, statement: str) -> int:
    async with plant.database.read() as session:
        return int((await session.execute(text(statement))).scalar_one())


async def _posted(client: httpx.AsyncClient, path: str, body: object, key: str) -> None:
    async with asyncio.timeout(2 * START_SECONDS):
        while True:
            try:
                headers = {"Idempotency-Key": key}
                answer = await client.post(path, json=body, headers=headers, timeout=5)
                if answer.status_code == 201:
                    return
                assert answer.status_code >= 500, answer.text
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.1)


async def storm(folder: Path, plan: Plan, said: Callable[[str], None] = lambda _: None) -> Ledger:
    """One run in a folder of its own; `said` hears how far it is."""
    async with running_plant(folder, plan.relays, plan.seed) as plant:
        return await Storm(plant, plan, Random(plan.seed), said).run()
