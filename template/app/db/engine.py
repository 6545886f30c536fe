"""Connections and `transaction()`: the only place in the application that commits.

Invariant: an accepted event and its messages commit together or not at all. Whoever waits for new
messages is told after COMMIT has returned, never before, and a wake-up that fails is only slower:
the relay's backstop poll finds the rows.

SQLite has one writer connection (a second one would wait unfairly, up to seconds) that begins with
BEGIN IMMEDIATE: the driver's own mode loses updates silently, a deferred BEGIN fails under load.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session

from app.config import Settings

IN_TRANSACTION = "app.in_transaction"
DESTINATIONS = "app.destinations"
BEFORE_COMMIT = "app.before_commit"  # steps to take; a dict, because it keeps order

Woken = Callable[[frozenset[str]], None]


class Writing(Session):
    """A session that takes the steps in `info[BEFORE_COMMIT]` immediately before its COMMIT."""


@event.listens_for(Writing, "before_commit")
def _before_commit(session: Session) -> None:
    steps: dict[Callable[[Session], None], None] = session.info.get(BEFORE_COMMIT, {})
    if steps and not session.in_nested_transaction():  # a savepoint's RELEASE is no COMMIT
        session.flush()  # what a step locks should be locked last
        for step in list(steps):
            step(session)


class Database:
    """The engines of one process and its transactions."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.is_sqlite = settings.is_sqlite
        if self.is_sqlite:
            self.writer = _sqlite_engine(settings, begin="BEGIN IMMEDIATE", size=1)
            self.reader = _sqlite_engine(settings, begin="BEGIN", size=4)
        else:
            self.writer = self.reader = _postgresql_engine(settings)
        self._write = async_sessionmaker(
            self.writer, expire_on_commit=False, sync_session_class=Writing
        )
        self._read = async_sessionmaker(self.reader, expire_on_commit=False)
        self.on_commit: list[Woken] = []
        self.session_info: dict[str, Any] = {}  # what every session of `transaction()` carries

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncSession]:
        """A session whose writes commit when the block ends, or not at all when it raises.

        A COMMIT that fails raises here, so the caller's client sees the failure. Listeners in
        `on_commit` get the destinations that `publish` wrote to, after the COMMIT.
        """
        async with self._write() as session:
            session.info.update(self.session_info)
            session.info[IN_TRANSACTION] = True
            async with session.begin():
                yield session
            destinations = frozenset(session.info.get(DESTINATIONS, ()))
        if destinations:
            for woken in self.on_commit:
                woken(destinations)

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncSession]:
        """A session for reading one consistent state; it never commits."""
        async with self._read() as session, session.begin():
            yield session
            await session.rollback()

    async def dispose(self) -> None:
        """Close every connection."""
        await self.writer.dispose()
        if self.reader is not self.writer:
            await self.reader.dispose()


def _postgresql_engine(settings: Settings) -> AsyncEngine:
    return create_async_engine(
        settings.database_url,
        pool_size=settings.database_pool_size,
        max_overflow=settings.database_pool_size,
        pool_pre_ping=True,
    )


def sqlite_path(url: str) -> Path | None:
    """The database file of a SQLite URL; None for a database in memory."""
    database = make_url(url).database
    return None if database in (None, "", ":memory:") else Path(str(database))


def _sqlite_engine(settings: Settings, *, begin: str, size: int) -> AsyncEngine:
    path = sqlite_path(settings.database_url)
    if path is not None and not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    engine = create_async_engine(settings.database_url, pool_size=size, max_overflow=0)

    @event.listens_for(engine.sync_engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            "busy_timeout = 30000",
            "journal_mode = WAL",
            "synchronous = FULL",  # NORMAL may lose an acknowledged commit on power loss
            "foreign_keys = ON",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    return engine
