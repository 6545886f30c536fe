"""The generated application's publish and relay, for the side-by-side harness (see peers.py).

Runs the code in `template/` unchanged: `publish` in an ORM session, `Relay` with its default
settings. The harness answers for clocks and verbs (`base`); it lies in $BENCH_HARNESS.

    fast, default   a deliverer without I/O; all else as shipped (token, lease, attempt row)
    http            the webhook deliverer: signed, address judged, answer stored

The harness drains one endpoint, so what may be in flight for one is raised to its 64; shipped are 8.
"""

# mypy: disable-error-code="import-not-found,import-untyped,misc,name-defined,attr-defined"
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

HARNESS = Path(os.environ["BENCH_HARNESS"]) / "adapters"
TEMPLATE = Path(__file__).resolve().parents[2] / "template"
sys.path[:0] = [str(HARNESS), os.environ.get("BENCH_TEMPLATE", str(TEMPLATE))]

import base
import msgspec
from app.config import Settings, load_settings
from app.db.engine import Database
from app.db.migrate import upgrade
from app.memory import collect_seldom
from app.outbox.deliverer import Deliverer
from app.outbox.message import Claim, Delivered, Outcome
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy
from app.outbox.publish import Event, publish, publish_all
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from app.relay.wakeup import Notifier
from app.webhooks.endpoint import EndpointCreate
from app.webhooks.endpoints import create_endpoint
from app.wiring import build
from prometheus_client import CollectorRegistry
from sqlalchemy import text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

OPEN = "sent_at IS NULL AND parked_at IS NULL AND losses = 0 AND ordering_key IS NULL"
Handler = Callable[[int, bytes], Awaitable[None]]


class Orm(DeclarativeBase):
    """The harness's business row, mapped."""


class Order(Orm):
    """As the harness makes it."""

    __tablename__ = "bench_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    ref: Mapped[str]
    amount: Mapped[int]


def settings() -> Settings:
    """Defaults, but for the database and what one endpoint may have in flight."""
    url = base.DSN.replace("postgresql://", "postgresql+asyncpg://")
    values = {
        "APP_ENV": "test",
        "APP_SECRET_KEY": "a-secret-of-the-benchmark-0123456789",
        "APP_ALLOW_PRIVATE_TARGETS": "true",
        "APP_DATABASE_URL": url,
        "APP_ENDPOINT_CONCURRENCY": "64",
        "APP_LOG_LEVEL": "warning",
    }
    return load_settings(values)


def event(i: int) -> Event:
    """About 1 KB of JSON."""
    return Event(type="order.created", data={"i": i, "pad": base.PAD})


class Counting:
    """A deliverer without I/O: hands the message to the harness's handler."""

    def __init__(self, handler: Handler, *, numbered: bool) -> None:
        self._handler, self._numbered = handler, numbered

    async def deliver(self, claim: Claim) -> Outcome:
        """Count it."""
        i = msgspec.json.decode(claim.body)["data"]["i"] if self._numbered else 0
        await self._handler(i, claim.body)
        return Delivered()

    def policy(self, _destination: str) -> RetryPolicy:
        """The default one."""
        return DEFAULT_POLICY

    async def close(self) -> None:
        """Nothing to close."""


class Watched:
    """The application's webhook deliverer; counts what is delivered, as the harness reads it."""

    def __init__(self, inner: Deliverer) -> None:
        self._inner, self._count, self._told = inner, 0, 0
        self.policy = inner.policy

    async def deliver(self, claim: Claim) -> Outcome:
        """Deliver and count."""
        if not self._count and not self._told:
            self._told = 1
            base.out(ev="first", t=base.now())
        outcome: Outcome = await self._inner.deliver(claim)
        if isinstance(outcome, Delivered):
            self._count += 1
        return outcome

    async def tell(self) -> None:
        """Every 10 ms, as the harness's own handlers do."""
        while True:
            await asyncio.sleep(0.01)
            base.out(ev="count", n=self._count, t=base.now())

    async def close(self) -> None:
        """Close the connections."""
        await self._inner.close()


class Producer:
    """ORM sessions on the pool that all producers of this process share."""

    shared: "Database | None" = None

    def __init__(self, database: Database) -> None:
        self._database = database

    async def business(self, i: int) -> None:
        """Only the business row."""
        async with self._database.transaction() as session:
            session.add(Order(ref="ref", amount=i))

    async def both(self, i: int) -> None:
        """The business row and its event, as a feature of the application does it."""
        async with self._database.transaction() as session:
            session.add(Order(ref="ref", amount=i))
            await publish(session, event(i))

    async def bulk(self, n: int) -> None:
        """Many events in one transaction."""
        async with self._database.transaction() as session:
            await publish_all(session, [event(i) for i in range(n)])

    async def close(self) -> None:
        """The pool stays open for the others."""


class RelayAdapter(base.Adapter):
    """The verbs of the harness."""

    name = "scaffolder-relay"
    version = "this checkout"
    keeps_history = True
    profiles: ClassVar[dict[str, Any]] = {
        "fast": {},
        "http": {"http": 1, "client": "raw"},  # the client that the harness makes is not used
        "default": {"numbered": True, "wake": "NOTIFY on its own connection (in the publisher)"},
    }
    latency: ClassVar[list[str]] = ["default"]
    n_factor = 2
    reset_sql = "TRUNCATE events, outbox_messages, attempts"
    pending_sql = f"SELECT EXISTS (SELECT 1 FROM outbox_messages WHERE {OPEN})"
    left_sql = f"SELECT count(*) FROM outbox_messages WHERE {OPEN}"

    async def setup(self) -> None:
        """Migrate; one endpoint, subscribed to what the harness publishes."""
        parts = build(settings())
        await upgrade(parts.database)
        wanted = EndpointCreate(url="http://127.0.0.1:9/", types=["order.*"])
        async with parts.database.transaction() as session:
            await session.execute(text(base.BUSINESS_DDL))
            await create_endpoint(session, parts.cipher, parts.settings, wanted, "")
        await parts.close()

    async def fill(self, n: int) -> None:
        """Publish, 2,000 in a transaction."""
        database = Database(settings())
        for start in range(0, n, 2000):
            async with database.transaction() as session:
                await publish_all(session, [event(i) for i in range(start, min(n, start + 2000))])
        await database.dispose()

    async def history(self, n: int) -> None:
        """Sent messages with their events and attempt rows, as the relay leaves them."""
        database = Database(settings())
        body = b'{"pad": "%s"}' % (b"x" * 180)
        async with database.transaction() as session:
            endpoint = (await session.execute(text("SELECT id FROM endpoints"))).scalar_one()
            for statement in _HISTORY:
                values = {"n": n, "body": body, "destination": f"webhook:{UUID(str(endpoint))}"}
                used = {name: v for name, v in values.items() if f":{name}" in statement}
                await session.execute(text(statement), used)
        await database.dispose()

    async def producer(self) -> Producer:
        """One of up to eight."""
        if Producer.shared is None:
            Producer.shared = Database(settings())
            await Notifier(Producer.shared).start()
        return Producer(Producer.shared)

    async def run_worker(
        self, cfg: dict[str, Any], handler: Handler, ready: Callable[[], Awaitable[None]]
    ) -> None:
        """A relay as `my-app relay` runs it."""
        parts = build(settings())
        if "http" in cfg:
            relay = parts.relay()
            watched = Watched(parts.deliverers["webhook"])
            parts.deliverers["webhook"] = watched
            async with parts.database.transaction() as session:
                await session.execute(text("UPDATE endpoints SET url = :url"), {"url": base.URL})
            telling = asyncio.create_task(watched.tell())
        else:
            telling = None
            deliverers = {"webhook": Counting(handler, numbered="numbered" in cfg)}
            metrics = RelayMetrics(CollectorRegistry())
            relay = Relay(parts.database, deliverers, parts.settings, metrics)
        collect_seldom()  # as `my-app relay` does
        await ready()
        await relay.run()
        del telling


_HISTORY = (
    """INSERT INTO events (id, type, tenant, body, occurred_at, created_at)
    SELECT gen_random_uuid(), 'order.created', '', :body, now() - interval '1 day',
      now() - interval '1 day' FROM generate_series(1, CAST(:n AS int))""",
    """INSERT INTO outbox_messages
      (id, event_id, destination, attempts, available_at, created_at, sent_at)
    SELECT gen_random_uuid(), id, :destination, 1, now() - interval '1 day',
      now() - interval '1 day', now() - interval '1 day' FROM events""",
    """INSERT INTO attempts (message_id, number, event_id, type, destination, started_at,
      duration_ms, outcome, status_code)
    SELECT id, 1, event_id, 'order.created', destination, sent_at, 1, 'delivered', 204
    FROM outbox_messages""",
)

if __name__ == "__main__":
    base.main(RelayAdapter())
