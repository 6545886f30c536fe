"""Names whose servers never answer delay no other name: the resolver blocks, in real threads."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from app.webhooks import lookups
from app.webhooks.connect import Connector, Origin, ResolveError
from app.webhooks.lookups import KEPT_SLOW_NAMES, SLOW_NAME_SECONDS, SlowNames
from tests.support.wire import answering, listening


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return ("asyncio", {"use_uvloop": request.param})


class Resolver:
    """Every name is 127.0.0.1, but those with `dead` in them: they hang, and fail at the end."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []  # name, and the pool of threads it was asked in
        self.end = threading.Event()
        self.well = False  # whether the dead are dead no more

    def getaddrinfo(self, host: str, port: int, *_: object) -> list[object]:
        self.asked.append((host, threading.current_thread().name.rpartition("_")[0]))
        if "dead" in host and not self.well:
            self.end.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def held(self, threads: int) -> None:
        """Until so many threads have asked for a name."""
        async with asyncio.timeout(30):
            while len(self.asked) < threads:  # noqa: ASYNC110 - other threads
                await asyncio.sleep(0.01)

    def pools(self, host: str) -> list[str]:
        """Where a name was asked for, each time."""
        return [pool for asked, pool in self.asked if asked == host]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver.getaddrinfo)
    yield resolver
    resolver.end.set()


@pytest.fixture
async def connector(resolver: Resolver) -> AsyncIterator[Connector]:
    connector = Connector(allow_private=True)
    yield connector
    resolver.end.set()
    connector.close()


def origin(host: str, port: int = 80) -> Origin:
    return Origin(secure=False, host=host, port=port)


async def hang(connector: Connector, names: list[str]) -> list[asyncio.Task[object]]:
    """Let somebody wait for each of the names."""
    waiting = [asyncio.create_task(connector.resolve(origin(name))) for name in names]
    await asyncio.sleep(0)  # each has run up to where it waits
    return waiting


async def give_up(waiting: list[asyncio.Task[object]]) -> None:
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def dead(count: int) -> list[str]:
    return [f"dead{number}.example.com" for number in range(count)]


async def test_a_healthy_name_connects_while_200_dead_ones_hang(
    connector: Connector, resolver: Resolver
):
    """None of them was known to be dead, and all came first."""
    async with listening(answering(b"")) as wire:
        waiting = await hang(connector, dead(200))
        connection = await connector.connect(origin("healthy.example.com", wire.port), 5)
        connection.abort()
        assert not any(task.done() for task in waiting)
        await give_up(waiting)


async def test_a_lookup_that_nobody_waits_for_is_not_made(connector: Connector, resolver: Resolver):
    """Unless it has begun. One of two who wait may leave; the other one has the answer."""
    dead_ones = await hang(connector, dead(lookups.QUICK_THREADS))
    left = await hang(connector, ["left.example.com"] * 2)
    shared = await hang(connector, ["shared.example.com"] * 2)
    await give_up([*left, shared.pop()])
    last = await hang(connector, ["last.example.com"])
    resolver.end.set()
    await asyncio.gather(*shared, *last)  # asked for in their order
    asked = [name for name, _ in resolver.asked]
    assert "left.example.com" not in asked
    assert asked.count("shared.example.com") == 1
    await asyncio.gather(*dead_ones, return_exceptions=True)
    assert await connector.resolve(origin("left.example.com"))


async def test_a_name_known_to_be_dead_takes_no_thread_from_others(
    connector: Connector, resolver: Resolver
):
    """The second time it hangs in a pool beside theirs, which it leaves once it is found."""
    names = dead(lookups.QUICK_THREADS)
    waiting = await hang(connector, names)
    others = await hang(connector, [f"more-{name}" for name in names])
    await resolver.held(2 * len(names))  # then each of `names` was found to be slow
    resolver.end.set()
    results = await asyncio.gather(*waiting, *others, return_exceptions=True)
    assert all(isinstance(result, ResolveError) for result in results)
    resolver.end.clear()
    resolver.asked.clear()
    waiting = await hang(connector, names)
    await connector.resolve(origin("other.example.com"))
    assert resolver.pools("other.example.com") == ["resolve"]
    resolver.end.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [resolver.pools(name) for name in names] == [["resolve-slow"]] * len(names)
    resolver.well = True
    for _ in range(2):
        await connector.resolve(origin(names[0]))
    assert resolver.pools(names[0]) == ["resolve-slow", "resolve-slow", "resolve"]


async def test_a_lookup_that_waits_while_all_is_closed_fails(
    connector: Connector, resolver: Resolver
):
    """At once, as one does that is asked for later."""
    waiting = await hang(connector, dead(lookups.QUICK_THREADS))
    late = await hang(connector, ["late.example.com"])
    connector.close()
    with pytest.raises(ResolveError):
        await late[0]
    resolver.end.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    with pytest.raises(ResolveError):
        await connector.resolve(origin("later.example.com"))
    assert "late.example.com" not in [name for name, _ in resolver.asked]


async def test_a_context_for_tls_does_not_wait_behind_lookups(
    connector: Connector, resolver: Resolver
):
    """Not even when every thread for lookups is held."""
    waiting = await hang(connector, dead(lookups.MOST_THREADS + 1))
    await resolver.held(lookups.MOST_THREADS)
    async with asyncio.timeout(5):
        made = await connector._context(Origin(secure=True, host="127.0.0.1", port=443))
    assert isinstance(made, ssl.SSLContext)
    await give_up(waiting)


def test_a_name_is_slow_until_it_is_found_or_some_time_has_passed():
    """A slow answer is one; a failure that comes at once changes nothing."""
    names = SlowNames()
    names.learn("a", 0, slow=False, failed=True)
    names.learn("b", 0, slow=True, failed=False)
    assert not names.has("a", 0)
    assert not names.has("b", 0)
    names.learn("a", 0, slow=True, failed=True)
    names.learn("a", 1, slow=False, failed=True)
    assert names.has("a", SLOW_NAME_SECONDS - 1)
    assert not names.has("a", SLOW_NAME_SECONDS)
    names.learn("a", 2, slow=False, failed=False)
    assert not names.has("a", 2)


def test_no_more_than_a_bounded_number_of_slow_names_is_kept():
    """The one that was slow longest ago goes first."""
    names = SlowNames()
    for number in range(KEPT_SLOW_NAMES):
        names.learn(str(number), 0, slow=True, failed=True)
    names.learn("0", 0, slow=True, failed=True)
    names.learn("one more", 0, slow=True, failed=True)
    assert names.has("0", 0)
    assert names.has("one more", 0)
    assert not names.has("1", 0)
