"""PostgreSQL connections held for long: the relay's, the listener's, the notifier's.

They are driver-level (asyncpg) and stand outside the pool, because claim and settle through
SQLAlchemy cost three times the time. Invariant: no statement of the relay outlives half a lease,
on either side: the server ends it (`statement_timeout`), and a server that no longer answers is
given up by the client. Any error drops the connection; the next statement opens a new one.

Behind a pooler of transactions (`APP_LISTEN=false`) a connection has no session: limits are set in
each transaction anew, and nothing is prepared, since the next statement may meet another server.
"""

import asyncio
from typing import Any

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import Database

KEEPALIVE_SECONDS = 10
CONNECT_SECONDS = 10.0
# Each statement here goes by an index, whatever the statistics of a young or busy table may say, so
# one plan is good for all arguments; planning takes as long as claiming a hundred messages.
_LIMITS = """SELECT set_config('enable_seqscan', 'off', $3), set_config('jit', 'off', $3),
 set_config('plan_cache_mode', 'force_generic_plan', $3),
 set_config('application_name', $1, $3),
 set_config('statement_timeout', $2, $3),
 set_config('idle_in_transaction_session_timeout', $2, $3)"""
_KEEPALIVE = """SELECT set_config('tcp_keepalives_idle', $1, false),
 set_config('tcp_keepalives_interval', $1, false),
 set_config('tcp_keepalives_count', '3', false)"""


async def connect(database: Database, name: str, limit_seconds: float) -> asyncpg.Connection:
    """A connection of its own to the application's database, with the limits set."""
    engine, pooled = database.writer, not database.settings.listen
    _, arguments = engine.dialect.create_connect_args(engine.url)
    arguments.pop("prepared_statement_name_func", None)  # these two are SQLAlchemy's own
    cached = arguments.pop("prepared_statement_cache_size", None)
    if pooled or cached is not None:
        arguments["statement_cache_size"] = 0 if pooled else int(cached)
    connection = await asyncpg.connect(**arguments, timeout=CONNECT_SECONDS)
    try:
        if not pooled:
            await _limit(connection, name, limit_seconds, for_transaction=False)
            await connection.fetchrow(_KEEPALIVE, str(KEEPALIVE_SECONDS), timeout=limit_seconds)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _limit(
    connection: asyncpg.Connection, name: str, limit_seconds: float, *, for_transaction: bool
) -> None:
    milliseconds = str(int(limit_seconds * 1000))
    await connection.fetchrow(_LIMITS, name, milliseconds, for_transaction, timeout=limit_seconds)


class Link:
    """One connection that is opened when needed and replaced when broken; one statement a time."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._limit = database.settings.lease_seconds / 2
        self._lock = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    @property
    def busy(self) -> bool:
        """Whether a statement is under way."""
        return self._lock.locked()

    async def fetch(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """The rows of one statement, which is a transaction of its own."""
        async with self._lock:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._database, self._name, self._limit)
            try:
                return await self._fetch(self._connection, statement, *arguments)
            except BaseException:  # a cancelled statement leaves the connection in the middle of it
                self._connection.terminate()
                self._connection = None
                raise

    async def _fetch(
        self, connection: asyncpg.Connection, statement: str, *arguments: Any
    ) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record]
        if self._database.settings.listen:
            rows = await connection.fetch(statement, *arguments, timeout=self._limit)
            return rows
        async with asyncio.timeout(self._limit), connection.transaction():
            await _limit(connection, self._name, self._limit, for_transaction=True)
            rows = await connection.fetch(statement, *arguments)
        return rows

    async def close(self) -> None:
        """Close the connection, if there is one."""
        async with self._lock:
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None


class Links:
    """Two connections of the same use, so that one statement does not wait for the other."""

    def __init__(self, database: Database, name: str) -> None:
        self._links = Link(database, name), Link(database, name)

    async def fetch(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """On the first that is free."""
        free = next((link for link in self._links if not link.busy), self._links[0])
        return await free.fetch(statement, *arguments)

    async def fetch_on_each(self, statement: str, *arguments: Any) -> None:
        """On both, at the same time."""
        await asyncio.gather(*(link.fetch(statement, *arguments) for link in self._links))

    async def close(self) -> None:
        """Close both."""
        for link in self._links:
            await link.close()


async def go_by_indexes(session: AsyncSession) -> None:
    """Let no plan that is made in the transaction of a session walk a table; PostgreSQL only.

    Plans are kept by the connection, those of foreign keys too, while the tables grow.
    """
    await session.execute(text("SELECT set_config('enable_seqscan', 'off', true)"))


async def fetch_in(session: AsyncSession, statement: str, *arguments: Any) -> list[asyncpg.Record]:
    """The rows of a statement of the relay inside the transaction of a session."""
    await go_by_indexes(session)  # begins the transaction, too; the driver would commit by itself
    raw = await (await session.connection()).get_raw_connection()
    connection: asyncpg.Connection = raw.driver_connection
    rows: list[asyncpg.Record] = await connection.fetch(statement, *arguments)
    return rows
