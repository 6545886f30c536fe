"""txoutbox with its PostgresStorage. It has no bulk insert, so it is filled by SQL."""

# mypy: disable-error-code="import-not-found,import-untyped"
import sys
from importlib.metadata import version
from typing import ClassVar

import asyncpg
from txoutbox import OutboxMessage, Relay, RelayConfig
from txoutbox.adapters.postgres import PostgresStorage

from benchmarks.peers.adapters import base

FILL = """INSERT INTO outbox (topic, payload)
SELECT 'hook', convert_to(p, 'UTF8') FROM unnest($1::text[]) p"""


class Producer(base.PgProducer):
    """The library's insert on this connection."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        super().__init__(connection)
        self._storage = PostgresStorage(None)

    async def enqueue(self, i: int) -> None:
        """Add message i to the open transaction."""
        await self._storage.insert(self.connection, "hook", base.text(i))


class TxoutboxAdapter(base.Adapter):
    """Messages have no keys, so strict ordering is off; the trigger exists for `latency` only."""

    version = version("txoutbox")
    profiles: ClassVar[dict[str, base.Settings]] = {
        "drain": {"relay": {"batch_size": 500, "concurrency": 50}},
        "http": {"relay": {"batch_size": 256, "concurrency": 64}, "connections": 64},
        "latency": {"relay": {}, "channel": "outbox"},
    }
    reset_sql = "TRUNCATE outbox"
    pending_sql = "SELECT EXISTS (SELECT 1 FROM outbox WHERE status = 'pending')"
    left_sql = "SELECT count(*) FROM outbox WHERE status = 'pending'"

    async def setup(self) -> None:
        """The library's schema."""
        connection = await asyncpg.connect(base.DSN)
        await connection.execute(base.BUSINESS_DDL)
        await connection.execute(PostgresStorage(None).schema_sql())
        await connection.close()

    async def fill(self, count: int) -> None:
        """Insert, 2,000 in a statement."""
        connection = await asyncpg.connect(base.DSN)
        async with connection.transaction():
            for start in range(0, count, 2000):
                numbers = range(start, min(count, start + 2000))
                await connection.execute(FILL, [base.text(i) for i in numbers])
        await connection.close()

    async def producer(self, *, wake: bool) -> Producer:
        """The worker has made the trigger that wakes it."""
        del wake
        return Producer(await asyncpg.connect(base.DSN))

    async def run_worker(self, work: base.Work) -> None:
        """Rounds of claim, publish and acknowledge."""
        channel = work.settings.get("channel")
        pool = await asyncpg.create_pool(base.DSN, min_size=4, max_size=6)
        storage = PostgresStorage(pool, strict_ordering=False, notify_channel=channel)
        await pool.execute("DROP TRIGGER IF EXISTS outbox_notify ON outbox")

        async def publish(message: OutboxMessage) -> None:
            await work.handler(base.number(message.payload), message.payload)

        relay = Relay(storage, publish, config=RelayConfig(**work.settings["relay"]))
        if channel is None:
            await work.ready()
            await relay.run()
        await storage.create_schema()
        listening = await storage.listen(relay.wake)  # kept: it ends when it is collected
        await work.ready()
        await relay.run()
        del listening


if __name__ == "__main__":
    base.main(TxoutboxAdapter(), sys.argv[1:])
