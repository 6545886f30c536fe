"""pgqueuer with its asyncpg driver: `Queries.enqueue` in the caller's transaction."""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator"
import logging
import sys
from datetime import timedelta
from importlib.metadata import version
from typing import ClassVar

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers.adapters import base


class Producer(base.PgProducer):
    """The library's own queries on this connection."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        super().__init__(connection)
        self._queries = Queries(AsyncpgDriver(connection))

    async def enqueue(self, i: int) -> None:
        """Add message i to the open transaction."""
        await self._queries.enqueue("hook", base.text(i).encode())


class PgQueuerAdapter(base.Adapter):
    """Finished jobs leave the queue's table for `pgqueuer_log`."""

    version = version("pgqueuer")
    profiles: ClassVar[dict[str, base.Settings]] = {
        "drain": {"batch": 200, "at_once": None},
        "http": {"batch": 100, "at_once": 200, "connections": 64},
        "latency": {"batch": 10, "at_once": None},
    }
    reset_sql = "TRUNCATE pgqueuer, pgqueuer_log"
    pending_sql = "SELECT EXISTS (SELECT 1 FROM pgqueuer)"
    left_sql = "SELECT count(*) FROM pgqueuer"

    async def setup(self) -> None:
        """The library's tables and its trigger that notifies."""
        connection = await asyncpg.connect(base.DSN)
        await connection.execute(base.BUSINESS_DDL)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def fill(self, count: int) -> None:
        """Enqueue, 2,000 in a call."""
        connection = await asyncpg.connect(base.DSN)
        queries = Queries(AsyncpgDriver(connection))
        async with connection.transaction():
            for start in range(0, count, 2000):
                payloads = [base.text(i).encode() for i in range(start, min(count, start + 2000))]
                many = len(payloads)
                await queries.enqueue(["hook"] * many, payloads, [0] * many)
        await connection.close()

    async def producer(self, *, wake: bool) -> Producer:
        """Its trigger wakes the worker in any case."""
        del wake
        return Producer(await asyncpg.connect(base.DSN))

    async def run_worker(self, work: base.Work) -> None:
        """Batches on a pool."""
        logging.disable(logging.CRITICAL)
        pool = await asyncpg.create_pool(base.DSN, min_size=4, max_size=8)
        queue = PgQueuer(AsyncpgPoolDriver(pool))

        @queue.entrypoint("hook")
        async def hook(job: Job) -> None:
            await work.handler(base.number(job.payload), job.payload)

        await work.ready()
        await queue.run(
            batch_size=work.settings["batch"],
            max_concurrent_tasks=work.settings["at_once"],
            dequeue_timeout=timedelta(seconds=30),
        )


if __name__ == "__main__":
    base.main(PgQueuerAdapter(), sys.argv[1:])
