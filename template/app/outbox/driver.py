"""PostgreSQL connections held for long: the relay's, the listener's, the notifier's.

They are driver-level (asyncpg) and stand outside the pool, because claim and settle through
SQLAlchemy cost three times the time. Invariant: no statement of the relay outlives half a lease,
on either side: the server ends it (`statement_timeout`), and a server that no longer answers is
given up by the client. Any error drops the connection; the next statement opens a new one.
"""

import asyncio
from typing import Any

import asyncpg

from app.db.engine import Database

KEEPALIVE_SECONDS = 10
CONNECT_SECONDS = 10.0
# Each statement here goes by an index, whatever the statistics of a young or busy table may say.
_SESSION = """SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false),
 set_config('application_name', $1, false),
 set_config('statement_timeout', $2, false),
 set_config('idle_in_transaction_session_timeout', $2, false),
 set_config('tcp_keepalives_idle', $3, false),
 set_config('tcp_keepalives_interval', $3, false),
 set_config('tcp_keepalives_count', '3', false),
 set_config('synchronous_commit', coalesce($4, current_setting('synchronous_commit')), false)"""


async def connect(
    database: Database, name: str, limit_seconds: float, *, may_forget: bool = False
) -> asyncpg.Connection:
    """A connection of its own to the application's database, with the limits set.

    `may_forget`: its commits do not wait for the disk.
    """
    engine = database.writer
    _, arguments = engine.dialect.create_connect_args(engine.url)
    arguments.pop("prepared_statement_name_func", None)  # these two are SQLAlchemy's own
    cached = arguments.pop("prepared_statement_cache_size", None)
    if cached is not None:
        arguments["statement_cache_size"] = int(cached)  # 0 behind a pooler of transactions
    connection = await asyncpg.connect(**arguments, timeout=CONNECT_SECONDS)
    try:
        values = name, str(int(limit_seconds * 1000)), str(KEEPALIVE_SECONDS)
        commit = "off" if may_forget else None
        await connection.fetchrow(_SESSION, *values, commit, timeout=limit_seconds)
    except BaseException:
        connection.terminate()
        raise
    return connection


class Link:
    """One connection that is opened when needed and replaced when broken; one statement a time."""

    def __init__(self, database: Database, name: str, *, may_forget: bool = False) -> None:
        self._database = database
        self._name = name
        self._may_forget = may_forget
        self._limit = database.settings.lease_seconds / 2
        self._lock = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    async def fetch(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        """The rows of one statement, which is a transaction of its own."""
        async with self._lock:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(
                    self._database, self._name, self._limit, may_forget=self._may_forget
                )
            try:
                rows: list[asyncpg.Record] = await self._connection.fetch(
                    statement, *arguments, timeout=self._limit
                )
                return rows
            except BaseException:  # a cancelled statement leaves the connection in the middle of it
                self._connection.terminate()
                self._connection = None
                raise

    async def close(self) -> None:
        """Close the connection, if there is one."""
        async with self._lock:
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
