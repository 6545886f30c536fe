"""What the relay's benchmarks are made of: a migrated database, messages, receivers, deliverers."""

# mypy: disable-error-code="import-not-found,import-untyped"
import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from app.config import Settings, load_settings
from app.db.engine import Database
from app.db.migrate import upgrade
from app.outbox.message import Claim, Delivered, Outcome
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy
from app.outbox.publish import Event, publish_all
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from app.webhooks.endpoint import EndpointCreate
from app.webhooks.endpoints import create_endpoint
from app.wiring import Components, build
from prometheus_client import CollectorRegistry
from sqlalchemy import text
from tests.support.postgres import new_database, server_url

PAD = "x" * 960  # about 1 KB a message
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


def settings_for(url: str, **changes: str) -> Settings:
    """Settings as shipped, private targets open."""
    values = {
        "APP_ENV": "test",
        "APP_SECRET_KEY": "a-secret-of-the-benchmark-0123456789",
        "APP_ALLOW_PRIVATE_TARGETS": "true",
        "APP_DATABASE_URL": url,
    }
    return load_settings(values | changes)


@contextmanager
def postgresql() -> Iterator[str]:
    """An empty database on a real server: `TEST_DATABASE_URL`, else the wheel's."""
    with server_url() as server, new_database(server) as url:
        yield url.render_as_string(hide_password=False)


@contextmanager
def sqlite() -> Iterator[str]:
    """An empty database file."""
    with TemporaryDirectory() as folder:
        yield f"sqlite+aiosqlite:///{Path(folder) / 'app.db'}"


@asynccontextmanager
async def migrated(url: str, **changes: str) -> AsyncGenerator[Components]:
    """The application's parts on an up-to-date database."""
    parts = build(settings_for(url, **changes))
    await upgrade(parts.database)
    try:
        yield parts
    finally:
        await parts.close()


async def endpoint(parts: Components, url: str, tenant: str = "") -> str:
    """A new endpoint for everything of its tenant; its destination."""
    wanted = EndpointCreate(url=url, types=["*"])
    async with parts.database.transaction() as session:
        made = await create_endpoint(session, parts.cipher, parts.settings, wanted, tenant)
    return f"webhook:{made.id}"


async def publish_many(database: Database, count: int, tenant: str = "") -> None:
    """Events of `tenant`, many in a transaction."""
    for start in range(0, count, 1000):
        numbers = range(start, min(count, start + 1000))
        batch = [
            Event(type="bench.created", data={"i": i, "pad": PAD}, tenant=tenant) for i in numbers
        ]
        async with database.transaction() as session:
            await publish_all(session, batch)


class Stamps:
    """A deliverer without I/O that notes when each message reached it."""

    def __init__(self, *, numbered: bool = False) -> None:
        self.at: dict[int, float] = {}
        self._numbered = numbered

    async def deliver(self, claim: Claim) -> Outcome:
        """Note it."""
        if self._numbered:
            self.at.setdefault(msgspec.json.decode(claim.body)["data"]["i"], time.monotonic())
        return Delivered()

    def policy(self, _destination: str) -> RetryPolicy:
        """The default one."""
        return DEFAULT_POLICY

    async def close(self) -> None:
        """Nothing to close."""


def relay_without_io(parts: Components, stamps: Stamps) -> Relay:
    """A relay whose webhooks go nowhere."""
    return Relay(
        parts.database, {"webhook": stamps}, parts.settings, RelayMetrics(CollectorRegistry())
    )


@asynccontextmanager
async def running(relay: Relay) -> AsyncGenerator[None]:
    """The relay at work for as long as the block lasts."""
    task = asyncio.create_task(relay.run())
    await asyncio.sleep(0.5)  # it connects and listens
    try:
        yield
    finally:
        relay.stop()
        await task


async def drain_once(parts: Components, count: int) -> float:
    """Seconds for `count` messages through a relay without I/O."""
    await publish_many(parts.database, count)
    return await seconds_of(relay_without_io(parts, Stamps()), count)


async def seconds_of(relay: Relay, count: int) -> float:
    """From its first claim until the last outcome is written."""
    task, began = asyncio.create_task(relay.run()), 0.0
    async with asyncio.timeout(300):
        while relay.counts.delivered < count:
            await asyncio.sleep(0.002)
            if not began and relay.counts.claimed:
                began = time.monotonic()
    seconds = time.monotonic() - began
    relay.stop()
    assert (await task).delivered == count
    return seconds


class Receiver(asyncio.Protocol):
    """Answers 204 after `slow` seconds where the path says so; notes when each number came."""

    at: dict[int, float] = {}  # noqa: RUF012 - one list for all connections
    slow = 2.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head = self._rest[:end].lower()
            size = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            if len(self._rest) < end + 4 + size:
                return
            body, self._rest = self._rest[end + 4 : end + 4 + size], self._rest[end + 4 + size :]
            if head.startswith(b"post /stamp"):
                self.at.setdefault(msgspec.json.decode(body)["data"]["i"], time.monotonic())
            if head.startswith(b"post /slow"):
                asyncio.get_running_loop().call_later(self.slow, self._answer)
            else:
                self._answer()

    def _answer(self) -> None:
        self._transport.write(ANSWER)


@asynccontextmanager
async def receiving() -> AsyncGenerator[str]:
    """A receiver in this process; its address."""
    Receiver.at = {}
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0, backlog=4096)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def resident_mb() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


HISTORY = (
    """INSERT INTO events (id, type, tenant, body, occurred_at, created_at)
    SELECT gen_random_uuid(), 'order.created', 'old', '\\x7b7d', now() - interval '1 day',
      now() - interval '1 day' FROM generate_series(1, CAST(:n AS int))""",
    """INSERT INTO outbox_messages
      (id, event_id, destination, attempts, available_at, created_at, sent_at)
    SELECT gen_random_uuid(), id, :destination, 1, created_at, created_at, created_at
    FROM events WHERE tenant = 'old'""",
    """INSERT INTO attempts (message_id, number, event_id, type, destination, started_at,
      duration_ms, outcome, status_code)
    SELECT m.id, 1, event_id, e.type, destination, sent_at, 1, 'delivered', 204
    FROM outbox_messages m JOIN events e ON e.id = m.event_id WHERE e.tenant = 'old'""",
)


async def keep_sent(database: Database, destination: str, count: int) -> None:
    """`count` messages sent a day ago, with their events and attempt rows."""
    async with database.transaction() as session:
        for statement in HISTORY:
            values = {"n": count, "destination": destination}
            used = {name: v for name, v in values.items() if f":{name}" in statement}
            await session.execute(text(statement), used)
    async with database.writer.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("VACUUM ANALYZE"))
