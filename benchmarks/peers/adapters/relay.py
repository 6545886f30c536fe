"""The generated application's publish and relay.

Runs the code in `template/` unchanged: `publish` in an ORM session, `Relay` with its default
settings, in this repository's own environment.

    drain, latency  a deliverer without I/O; all else as shipped (token, lease, attempt row)
    http            the webhook deliverer: signed, address judged, answer stored

The drain has one endpoint, so what may be in flight for one is raised to 64; shipped are 8.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
import sys
from typing import ClassVar

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

from benchmarks.peers.adapters import base

OPEN = "sent_at IS NULL AND parked_at IS NULL AND losses = 0 AND ordering_key IS NULL"


class Orm(DeclarativeBase):
    """The business row, mapped."""


class Order(Orm):
    """As every adapter makes it."""

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
    """A deliverer without I/O: hands the message to the handler."""

    def __init__(self, handler: base.Handler, *, numbered: bool) -> None:
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
    """The application's webhook deliverer; what is delivered is counted."""

    def __init__(self, inner: Deliverer, meter: base.Meter) -> None:
        self._inner, self._meter = inner, meter
        self.policy = inner.policy

    async def deliver(self, claim: Claim) -> Outcome:
        """Deliver and count."""
        self._meter.begin()
        outcome: Outcome = await self._inner.deliver(claim)
        if isinstance(outcome, Delivered):
            self._meter.done()
        return outcome

    async def close(self) -> None:
        """Close the connections."""
        await self._inner.close()


class Producer:
    """ORM sessions on the pool that all producers of this process share."""

    shared: Database | None = None

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

    async def close(self) -> None:
        """The pool stays open for the others."""


class RelayAdapter(base.Adapter):
    """The verbs."""

    version = "this checkout"
    profiles: ClassVar[dict[str, base.Settings]] = {
        "drain": {"numbered": False},
        "http": {"own_client": True},
        "latency": {"numbered": True},
    }
    count = 40_000
    reset_sql = "TRUNCATE events, outbox_messages, attempts"
    pending_sql = f"SELECT EXISTS (SELECT 1 FROM outbox_messages WHERE {OPEN})"
    left_sql = f"SELECT count(*) FROM outbox_messages WHERE {OPEN}"

    async def setup(self) -> None:
        """Migrate; one endpoint, subscribed to what is published."""
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

    async def producer(self, *, wake: bool) -> Producer:
        """One on the pool of all; as shipped, it wakes the relay in any case."""
        del wake
        if Producer.shared is None:
            Producer.shared = Database(settings())
            await Notifier(Producer.shared).start()
        return Producer(Producer.shared)

    async def run_worker(self, work: base.Work) -> None:
        """A relay as `my-app relay` runs it."""
        parts = build(settings())
        if "own_client" in work.settings:
            relay = parts.relay()
            parts.deliverers["webhook"] = Watched(parts.deliverers["webhook"], work.meter)
            async with parts.database.transaction() as session:
                await session.execute(text("UPDATE endpoints SET url = :url"), {"url": base.URL})
        else:
            counting = Counting(work.handler, numbered=work.settings["numbered"])
            metrics = RelayMetrics(CollectorRegistry())
            relay = Relay(parts.database, {"webhook": counting}, parts.settings, metrics)
        collect_seldom()  # as `my-app relay` does
        await work.ready()
        await relay.run()


if __name__ == "__main__":
    base.main(RelayAdapter(), sys.argv[1:])
