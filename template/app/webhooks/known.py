"""What this process knows of each endpoint: read seldom, used for every message.

Invariant: a request is never made on knowledge older than `FRESH_SECONDS`, so a disabled, deleted,
changed or rotated endpoint is noticed within that time by every relay, and nobody has to be told.
One short read serves all endpoints in use; it has ended before any request begins.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.cipher import Cipher
from app.config import Settings
from app.db.engine import Database
from app.outbox.message import Deferred, endpoint_id_of
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy
from app.webhooks.ready import (
    DELETED,
    DISABLED,
    Ready,
    Rows,
    is_current,
    prepare,
    read_rows,
    shared_of,
)
from app.webhooks.traffic import Traffic

FRESH_SECONDS = 1.0
IN_USE_SECONDS = 5.0  # a read renews what was used this recently
FORGET_SECONDS = 600.0  # longer than any request: `policy` is asked after it
READ_SECONDS = 5.0  # a database that does not answer must not hold a sender
READ_AT_ONCE = 500
PREPARED_AT_ONCE = 16  # 0.3 ms each when new; then whoever else has work gets a turn

UNREAD = Deferred("the endpoint could not be read from the database", delay_seconds=5.0)

logger = structlog.get_logger("app.webhooks")


@dataclass(slots=True)
class _Entry:
    state: Ready | Deferred
    read_at: float
    used_at: float
    traffic: Traffic


class KnownEndpoints:
    """The endpoints in use by this process."""

    def __init__(
        self,
        database: Database,
        cipher: Cipher,
        settings: Settings,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._database = database
        self._cipher = cipher
        self._settings = settings
        self._fresh_seconds = fresh_seconds
        self._entries: dict[str, _Entry] = {}
        self._wanted: set[str] = set()
        self._reading: asyncio.Task[None] | None = None
        self._abandoned: set[asyncio.Task[None]] = set()

    async def get(self, destination: str) -> Ready | Deferred:
        """How to send to `destination`, or why that is not possible now. Never raises."""
        now = time.monotonic()
        entry = self._entries.get(destination)
        if entry is not None and now - entry.read_at < self._fresh_seconds:
            entry.used_at = now
            return entry.state
        try:
            return await self._read(destination, now)
        except (SQLAlchemyError, OSError) as error:  # TimeoutError is an OSError
            logger.warning("endpoints could not be read", error=repr(error)[:200])
            return UNREAD

    def policy(self, destination: str) -> RetryPolicy:
        """The policy of a destination that was asked for lately."""
        entry = self._entries.get(destination)
        if entry is not None and isinstance(entry.state, Ready):
            return entry.state.policy
        return DEFAULT_POLICY

    def traffic(self, destination: str) -> Traffic:
        """What happens at a destination that `get` has just answered for."""
        return self._entries[destination].traffic

    def ready(self, destination: str) -> tuple[Ready, Traffic] | None:
        """The same without waiting, as far as it is known; however old."""
        entry = self._entries.get(destination)
        if entry is None or not isinstance(entry.state, Ready):
            return None
        return entry.state, entry.traffic

    def forget(self, destination: str) -> None:
        """Read it anew before its next request."""
        entry = self._entries.get(destination)
        if entry is not None:
            entry.read_at -= self._fresh_seconds

    def close(self) -> None:
        """Give up a read that is under way."""
        if self._reading is not None:
            self._abandon(self._reading)

    async def _read(self, destination: str, asked_at: float) -> Ready | Deferred:
        """Wait for a read that began after `asked_at`; many wait for the same one."""
        self._wanted.add(destination)
        while True:
            reading = self._reading
            if reading is None or reading.done():
                reading = self._reading = asyncio.create_task(self._read_wanted())
            # Not a timeout around the read: giving up a dead connection may take as long as it.
            await asyncio.wait({reading}, timeout=READ_SECONDS)
            if not reading.done():
                self._abandon(reading)
                raise TimeoutError(f"no answer within {READ_SECONDS:g} s")
            if reading.cancelled():  # given up by another that waited longer
                raise TimeoutError("no answer to a read that others waited for")
            reading.result()
            entry = self._entries.get(destination)
            if entry is not None and entry.read_at >= asked_at:
                entry.used_at = time.monotonic()
                return entry.state

    def _abandon(self, reading: asyncio.Task[None]) -> None:
        if self._reading is reading:
            self._reading = None
        self._abandoned.add(reading)
        reading.add_done_callback(self._ended)
        reading.cancel()

    def _ended(self, reading: asyncio.Task[None]) -> None:
        self._abandoned.discard(reading)
        if not reading.cancelled():
            reading.exception()

    async def _read_wanted(self) -> None:
        wanted, self._wanted = self._wanted, set()
        await self._read_all(wanted | self._in_use())

    def _in_use(self) -> set[str]:
        now = time.monotonic()
        for name, entry in list(self._entries.items()):
            if now - entry.used_at > FORGET_SECONDS:
                del self._entries[name]
        used_since = now - IN_USE_SECONDS
        return {name for name, entry in self._entries.items() if entry.used_at > used_since}

    async def _read_all(self, destinations: set[str]) -> None:
        names = sorted(destinations)
        for start in range(0, len(names), READ_AT_ONCE):
            await self._read_some(names[start : start + READ_AT_ONCE])

    async def _read_some(self, names: Sequence[str]) -> None:
        read_at = time.monotonic()
        ids = {name: _id_of(name) for name in names}
        async with self._database.read() as session:
            rows = await read_rows(session, [i for i in ids.values() if i is not None])
        for number, (name, endpoint_id) in enumerate(ids.items(), 1):
            if number % PREPARED_AT_ONCE == 0:
                await asyncio.sleep(0)
            known = self._entries.get(name)
            mine = rows.get(endpoint_id, ()) if endpoint_id is not None else ()
            state = self._state(mine, known.state if known is not None else None)
            used_at = known.used_at if known is not None else read_at
            traffic = known.traffic if known is not None else Traffic()
            if known is not None and state is not known.state:
                traffic.start_anew()
            if mine:
                traffic.read(shared_of(mine, read_at), read_at)
            self._entries[name] = _Entry(state, read_at, used_at, traffic)

    def _state(self, rows: Rows, known: Ready | Deferred | None) -> Ready | Deferred:
        if not rows:
            return DELETED
        if rows[0].status == "disabled":
            return DISABLED
        if isinstance(known, Ready) and is_current(known, rows):
            return known
        return prepare(rows, self._cipher, self._settings)


def _id_of(destination: str) -> UUID | None:
    try:
        return endpoint_id_of(destination)
    except ValueError:
        return None
