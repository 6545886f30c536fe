"""From a name to its addresses, so that the dead names of one tenant delay no other's.

Asking for a name holds a thread until its server has answered, which may be never: the resolver of
the operating system gives up after many seconds, and nothing can make it give up sooner. Hence:

- What nobody waits for any more, and has not begun, is not asked.
- A lookup that takes long counts no more: another begins in its place, up to `MOST_THREADS`.
- A name that failed slowly is asked in a few threads beside those of all others, for a while.

Invariants: these threads do nothing else, and one lookup at a time serves all who wait for a name.
What is found is not judged here, and nothing is connected to: see `connect.py`.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

QUICK_THREADS = 64  # so many lookups begin at once, and again as often as those are found slow
MOST_THREADS = 256
SLOW_NAME_THREADS = 16
SLOW_SECONDS = 0.5
# Not for ever: a name that works again must not wait behind dead ones until they are given up.
SLOW_NAME_SECONDS = 60.0
KEPT_SLOW_NAMES = 4000

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
Found = list[AddressInfo] | Exception


def ask(host: str, port: int) -> Found:
    """What the operating system's resolver says, or how it failed. Blocks."""
    try:
        found = socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except Exception as error:
        return error
    return [(family, kind, protocol, "", address) for family, kind, protocol, _, address in found]


@dataclass(slots=True, eq=False)
class Lookup:
    """One question, and how many wait for its answer."""

    host: str
    port: int
    lane: "Lane"
    answer: asyncio.Future[Found]
    waiters: int = 0
    slow: bool = False


class Lane:
    """Lookups in the order in which they came, in threads of their own.

    Invariant: at most `most` run, and at most `quick` of them for less than `SLOW_SECONDS`; so the
    executor never has to queue one, and each that waits here can still be dropped.
    """

    def __init__(self, name: str, quick: int, most: int) -> None:
        self._most_quick, self._most, self._quick = quick, most, 0
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._waiting: dict[Lookup, None] = {}
        self._running: set[asyncio.Task[None]] = set()

    def add(self, lookup: Lookup) -> None:
        """Make it as soon as there is room."""
        self._waiting[lookup] = None
        self._start()

    def drop(self, lookup: Lookup) -> bool:
        """Don't make it, if it has not begun; whether that was so."""
        waited = lookup in self._waiting
        self._waiting.pop(lookup, None)
        return waited

    def close(self) -> None:
        """Begin no more; what is under way ends by itself."""
        while self._waiting:
            self._waiting.popitem()[0].answer.set_result(OSError("no more names are looked up"))
        self._pool.shutdown(wait=False)

    def _start(self) -> None:
        while self._waiting and self._quick < self._most_quick and len(self._running) < self._most:
            lookup = next(iter(self._waiting))
            del self._waiting[lookup]
            self._quick += 1
            task = asyncio.create_task(self._make(lookup))
            self._running.add(task)
            task.add_done_callback(self._ended)

    async def _make(self, lookup: Lookup) -> None:
        loop = asyncio.get_running_loop()
        try:
            asked = loop.run_in_executor(self._pool, ask, lookup.host, lookup.port)
            await asyncio.wait([asked], timeout=SLOW_SECONDS)
        except RuntimeError as error:  # the system gives no thread more, or this is closed
            lookup.answer.set_result(OSError(str(error)))
            return
        finally:
            self._quick -= 1
        if not asked.done():
            lookup.slow = True
            self._start()
        lookup.answer.set_result(await asked)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():  # else the event loop is ending
            self._start()


class SlowNames:
    """Names whose last lookup failed after it had taken long. A bounded number, the latest."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def has(self, name: str, now: float) -> bool:
        """Whether it is one, still."""
        return self._until.get(name, now) > now

    def learn(self, name: str, now: float, *, slow: bool, failed: bool) -> None:
        """How a lookup ended. One that failed at once says nothing: it held no thread."""
        if slow or not failed:
            self._until.pop(name, None)
        if slow and failed:
            self._until[name] = now + SLOW_NAME_SECONDS
            if len(self._until) > KEPT_SLOW_NAMES:
                del self._until[next(iter(self._until))]


class Lookups:
    """All lookups of a process."""

    def __init__(self) -> None:
        self._main = Lane("resolve", QUICK_THREADS, MOST_THREADS)
        self._second = Lane("resolve-slow", SLOW_NAME_THREADS, SLOW_NAME_THREADS)
        self._slow_names = SlowNames()
        self._under_way: dict[tuple[str, int], Lookup] = {}

    async def find(self, host: str, port: int) -> Found:
        """All addresses of a name, or how the lookup failed."""
        lookup = self._under_way.get((host, port)) or self._begin(host, port)
        lookup.waiters += 1
        try:
            return await asyncio.shield(lookup.answer)
        finally:
            lookup.waiters -= 1
            if not lookup.waiters and lookup.lane.drop(lookup):
                del self._under_way[host, port]

    def _begin(self, host: str, port: int) -> Lookup:
        loop = asyncio.get_running_loop()
        lane = self._second if self._slow_names.has(host, loop.time()) else self._main
        lookup = self._under_way[host, port] = Lookup(host, port, lane, loop.create_future())

        def ended(answer: asyncio.Future[Found]) -> None:
            del self._under_way[host, port]
            failed = isinstance(answer.result(), Exception)
            self._slow_names.learn(host, loop.time(), slow=lookup.slow, failed=failed)

        lookup.answer.add_done_callback(ended)
        lane.add(lookup)
        return lookup

    def close(self) -> None:
        """Begin no more lookups."""
        self._main.close()
        self._second.close()
