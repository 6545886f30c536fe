"""Wake-ups between processes, on PostgreSQL: NOTIFY after COMMIT, on a connection of its own.

    transaction() -> on_commit -> Notifier -> NOTIFY 'names of destinations' -> Listener -> relay

Never inside the business transaction: commits would queue for one lock and publishing would cost
half as much again. Invariant: a lost or late wake-up is only slower, the relay's poll finds the
rows; so nothing here ever raises to its caller. In one process `on_commit` alone is enough.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from uuid import uuid4

import asyncpg
import structlog

from app.db.engine import Database
from app.outbox.driver import Link, connect

CHANNEL = "outbox_wakeup"
PAYLOAD_BYTES = 7_900  # PostgreSQL refuses 8,000
LOOK_YOURSELF = "*"
PROBE = "?"
_NOTIFY = "SELECT pg_notify($1, $2)"
GATHER_SECONDS = 0.005
AT_ONCE = 8  # wake-ups in a row before they are gathered
PROBE_SECONDS = 10.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0

logger = structlog.get_logger("app.relay")


class Notifier:
    """Tells relays in other processes which destinations have new messages."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._link = Link(database, "wake-ups")
        self._names: set[str] = set()
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; does nothing on SQLite, where the relay is in this process."""
        if not self._database.is_sqlite and self._task is None:
            self._database.on_commit.append(self._add)
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End; what has not been sent is left to the poll."""
        if self._task is not None:
            self._database.on_commit.remove(self._add)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._link.close()

    def _add(self, destinations: frozenset[str]) -> None:
        self._names |= destinations
        self._some.set()

    async def _run(self) -> None:
        """Some at once; where there are many, names are gathered."""
        gathering = Gathering()
        with suppress(Exception):  # so that the first one finds a connection and a plan
            await self._link.fetch(_NOTIFY, CHANNEL, PROBE)
        while True:
            await self._some.wait()
            self._some.clear()
            names, self._names = self._names, set()
            try:
                await self._link.fetch(_NOTIFY, CHANNEL, payload(names))
                await asyncio.sleep(gathering.pause(time.monotonic()))
            except Exception as error:
                logger.warning("wake-up not sent", error=repr(error)[:300])
                await asyncio.sleep(FIRST_PAUSE_SECONDS)


class Gathering:
    """Lets `AT_ONCE` wake-ups go in a row, in the long run one every `GATHER_SECONDS`."""

    def __init__(self) -> None:
        self._paid_until = 0.0

    def pause(self, now: float) -> float:
        """How long to wait, in seconds, after one that was sent now."""
        self._paid_until = max(self._paid_until, now) + GATHER_SECONDS
        return max(0.0, self._paid_until - now - AT_ONCE * GATHER_SECONDS)


def payload(names: Iterable[str]) -> str:
    """The names, or the word that there are too many."""
    text = "\n".join(sorted(names))
    return text if len(text.encode()) <= PAYLOAD_BYTES else LOOK_YOURSELF


class Listener:
    """Hears wake-ups and hands them to the relay of this process; reconnects by itself."""

    def __init__(
        self,
        database: Database,
        wake: Callable[[Iterable[str]], None],
        look: Callable[[], None],
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        self._database, self._wake, self._look = database, wake, look
        self._probe_seconds = probe_seconds
        self._limit = min(probe_seconds, database.settings.lease_seconds / 2)
        self._heard: asyncio.Future[None] | None = None
        self._probe = ""
        self.listening = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._listen()
                pause = FIRST_PAUSE_SECONDS
            except Exception as error:
                logger.warning("not listening, polling meanwhile", error=repr(error)[:300])
            self.listening.clear()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _listen(self) -> None:
        """Until the connection ends, or a round trip shows that it is only half there."""
        connection = await connect(self._database, "relay listener", self._limit)
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            await connection.add_listener(CHANNEL, self._on_notify)
            self.listening.set()
            self._look()  # for whatever was told while nobody listened
            while not ended.is_set():
                try:
                    async with asyncio.timeout(self._probe_seconds):
                        await ended.wait()
                except TimeoutError:
                    await self._round_trip(connection)
        finally:
            connection.terminate()

    async def _round_trip(self, connection: asyncpg.Connection) -> None:
        self._heard, self._probe = asyncio.get_running_loop().create_future(), PROBE + uuid4().hex
        await connection.execute(_NOTIFY, CHANNEL, self._probe, timeout=self._limit)
        async with asyncio.timeout(self._limit):
            await self._heard

    def _on_notify(self, _connection: object, _pid: int, _channel: str, text: str) -> None:
        if text.startswith(PROBE):
            if text == self._probe and self._heard is not None and not self._heard.done():
                self._heard.set_result(None)
        elif text == LOOK_YOURSELF:
            self._look()
        else:
            self._wake(text.split("\n"))
