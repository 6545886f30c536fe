"""procrastinate: `defer_async` on the caller's psycopg connection; jobs are kept."""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator"
import json
import logging
import sys
from typing import Any, ClassVar, Self

import procrastinate
import psycopg

from benchmarks.peers.adapters import base

BUSINESS_SQL = "INSERT INTO bench_order (ref, amount) VALUES (%s, %s)"


def application(size: int) -> procrastinate.App:
    """The application with a pool of this size."""
    connector = procrastinate.PsycopgConnector(conninfo=base.DSN, max_size=size)
    return procrastinate.App(connector=connector)


class Producer:
    """One psycopg connection; deferred through the library's own manager on it."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection
        app = application(4)

        @app.task(name="hook", queue="q")
        async def hook(i: int, pad: str) -> None:
            raise NotImplementedError  # run by the worker's application

        self.deferring = hook.configure(connection=connection)

    @classmethod
    async def open(cls) -> Self:
        """Connect."""
        return cls(await psycopg.AsyncConnection.connect(base.DSN, autocommit=True))

    async def business(self, i: int) -> None:
        """Only the business row."""
        async with self.connection.transaction():
            await self.connection.execute(BUSINESS_SQL, ("ref", i))

    async def both(self, i: int) -> None:
        """The business row and its job."""
        async with self.connection.transaction():
            await self.connection.execute(BUSINESS_SQL, ("ref", i))
            await self.deferring.defer_async(i=i, pad=base.PAD)

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.close()


class ProcrastinateAdapter(base.Adapter):
    """A trigger notifies for each job."""

    version = procrastinate.__version__
    profiles: ClassVar[dict[str, base.Settings]] = {
        "drain": {"concurrency": 30, "pool": 16},
        "http": {"concurrency": 64, "pool": 16, "connections": 64},
        "latency": {"concurrency": 10, "pool": 8},
    }
    count = http_count = 1_000
    reset_sql = "TRUNCATE procrastinate_jobs CASCADE"
    pending_sql = (
        "SELECT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"
    )
    left_sql = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"

    async def setup(self) -> None:
        """The library's schema."""
        async with await psycopg.AsyncConnection.connect(base.DSN, autocommit=True) as connection:
            await connection.execute(base.BUSINESS_DDL)
        app = application(4)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def fill(self, count: int) -> None:
        """Defer, 2,000 in a call."""
        producer = await Producer.open()
        async with producer.connection.transaction():
            for start in range(0, count, 2000):
                numbers = range(start, min(count, start + 2000))
                jobs = [{"i": i, "pad": base.PAD} for i in numbers]
                await producer.deferring.batch_defer_async(*jobs)
        await producer.close()

    async def producer(self, *, wake: bool) -> Producer:
        """Its trigger wakes the worker in any case."""
        del wake
        return await Producer.open()

    async def run_worker(self, work: base.Work) -> None:
        """One claim a job."""
        logging.disable(logging.CRITICAL)
        app = application(work.settings["pool"])
        sending = "connections" in work.settings

        @app.task(name="hook", queue="q")
        async def hook(i: int, pad: str) -> None:
            await work.handler(i, json.dumps({"i": i, "pad": pad}) if sending else "")

        async with app.open_async():
            await work.ready()
            concurrency = work.settings["concurrency"]
            await app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)


if __name__ == "__main__":
    base.main(ProcrastinateAdapter(), sys.argv[1:])
