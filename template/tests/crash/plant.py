"""The whole system as real processes on a PostgreSQL of its own, with a receiver of many moods."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import asyncpg
import httpx

from app.db.engine import Database
from tests.conftest import settings_for
from tests.support.answers import Answer, Fault
from tests.support.postgres import Server, free_port, running_server
from tests.support.processes import Application, Process
from tests.support.proxy import Proxy
from tests.support.received import Received
from tests.support.receiver import Receiver

LEASE_SECONDS = 3.0
START_SECONDS = 60.0  # a process on a machine that is busy with other tests
SHORT_LEASE = {
    "APP_LEASE_SECONDS": str(LEASE_SECONDS),
    "APP_REQUEST_TIMEOUT_SECONDS": "1",
    "APP_CONNECT_TIMEOUT_SECONDS": "1",
    "APP_POLL_SECONDS": "0.2",
    "APP_ENDPOINT_CONCURRENCY": "16",
}
PATHS = ("/0", "/1", "/2", "/3")
RETRY = {"kind": "exponential", "base_seconds": 0.5, "cap_seconds": 2, "attempts": 100}


@dataclass(slots=True)
class Moody(Receiver):
    """Takes 50 to 300 ms; one answer in ten is late, wrong, cut off or a lie about its body."""

    random: Random = field(default_factory=lambda: Random(1))

    def _answer_for(self, request: Received) -> Answer:
        delay = 0.05 + 0.25 * self.random.random()
        mood = self.random.random()
        if mood > 0.10:
            return Answer(200, delay_seconds=delay)
        if mood > 0.06:
            return Answer(500, delay_seconds=delay)
        fault = self.random.choice(
            [Fault.RESET, Fault.CLOSE, Fault.SILENT, Fault.STALL, Fault.RESET_BODY, Fault.GARBAGE]
        )
        return Answer(200, delay_seconds=delay, fault=fault)


@dataclass(slots=True)
class Place:
    """Where a process runs: it may be killed and started anew any number of times."""

    application: Application
    command: tuple[str, ...]
    probe: str  # a URL that answers once it is up
    process: Process | None = None
    _running: AbstractContextManager[Process] | None = None

    def start(self) -> None:
        """Start; comes back before it is up."""
        self._running = self.application.start(*self.command)
        self.process = self._running.__enter__()

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        assert self._running is not None
        self.process.kill()
        self._running.__exit__(None, None, None)

    async def up(self) -> None:
        """Wait until it answers."""
        async with asyncio.timeout(START_SECONDS):
            while await fetched(self.probe) is None:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)


async def fetched(url: str) -> str | None:
    """The page, if there is one."""
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=2) as client:
            answer = await client.get(url)
    except httpx.HTTPError:
        return None
    return answer.text if answer.status_code == 200 else None


@dataclass(slots=True)
class Plant:
    """API, relays (the last one's database is behind `proxy`), database server, receiver."""

    server: Server
    database: Database
    application: Application
    receiver: Moody
    proxy: Proxy
    api: Place
    relays: list[Place]
    key: str

    async def statement(self, *statements: str) -> None:
        """Run as an administrator, each by itself; the server must be up."""
        await _administer(self.server, *statements)

    def logged(self, words: str) -> int:
        """How often the logs of all processes say so."""
        logs = self.application.folder.glob("**/*.log")
        return sum(len(re.findall(words, log.read_text(errors="replace"))) for log in logs)


@asynccontextmanager
async def running_plant(folder: Path, relays: int, seed: int) -> AsyncGenerator[Plant]:
    """Everything up, endpoints registered."""
    with running_server() as server:
        await _administer(server, "CREATE DATABASE crash")
        url = server.url.set(database="crash")
        direct = Application(folder, url.render_as_string(hide_password=False), **SHORT_LEASE)
        async with Proxy(server.port) as proxy, Moody(random=Random(seed)) as receiver:
            await asyncio.to_thread(direct.run, "db", "upgrade")
            key = await asyncio.to_thread(direct.run, "keys", "create", "--scope", "admin")
            proxied_folder = folder / "proxied"
            proxied_folder.mkdir()
            proxied = Application(
                proxied_folder,
                url.set(port=proxy.port).render_as_string(hide_password=False),
                **SHORT_LEASE,
            )
            applications = [direct] * (relays - 1) + [proxied]
            database = Database(settings_for(url.render_as_string(hide_password=False)))
            plant = Plant(
                server, database, direct, receiver, proxy, _api(direct),
                [_relay(application) for application in applications], key.strip(),
            )  # fmt: skip
            try:
                for place in (plant.api, *plant.relays):
                    place.start()
                await asyncio.gather(*(place.up() for place in (plant.api, *plant.relays)))
                await _register(plant)
                yield plant
            finally:
                for place in (plant.api, *plant.relays):
                    if place.process is not None:
                        place.kill()
                await database.dispose()


async def _administer(server: Server, *statements: str) -> None:
    url = server.url.set(drivername="postgresql").render_as_string(hide_password=False)
    connection = await asyncpg.connect(url)
    try:
        for each in statements:
            await connection.execute(each)
    finally:
        await connection.close()


def _api(application: Application) -> Place:
    port = free_port()
    return Place(
        application, ("serve", "--port", str(port)), f"http://127.0.0.1:{port}/health/ready"
    )


def _relay(application: Application) -> Place:
    port = free_port()
    return Place(
        application, ("relay", "--metrics-port", str(port)), f"http://127.0.0.1:{port}/metrics"
    )


async def _register(plant: Plant) -> None:
    """One endpoint for each type that the storm publishes."""
    base = plant.api.probe.removesuffix("/health/ready")
    headers = {"Authorization": f"Bearer {plant.key}"}
    async with httpx.AsyncClient(trust_env=False, base_url=base, headers=headers) as client:
        for number, path in enumerate(PATHS):
            types = [f"crash.t{number}"] + (["order.created"] if number == 0 else [])
            body = {"url": plant.receiver.url_for(path), "types": types, "retry": RETRY}
            (await client.post("/api/endpoints", json=body)).raise_for_status()
