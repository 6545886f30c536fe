"""A real webhook receiver on loopback that records, verifies and misbehaves on demand.

    async with Receiver() as receiver:
        receiver.on("/hook", Answer(500), Answer(200))   # in turn; the last one stays
        ...
        (first, *_) = await receiver.wait_for(1)
        first.verify(secret)                              # the official library, raises if bad

It speaks HTTP/1.1 over plain asyncio streams, because a real server library refuses to send what
the sender has to survive: half a header block, a body that never ends, a reset. Tests without a
loop of their own (processes, the command line) use `receiver_in_thread()`.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from tests.support.answers import Answer, Fault, write_answer
from tests.support.received import Received, read_request

__all__ = ["Answer", "Fault", "Received", "Receiver", "ThreadedReceiver", "receiver_in_thread"]


@dataclass(slots=True)
class Receiver:
    """The server; `url` is its root. Every path answers 200 until `on` says otherwise."""

    secret: str | None = None  # when set, a request that does not verify is answered 401
    tls: ssl.SSLContext | None = None
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    _answers: dict[str, list[Answer]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _port: int = 0

    async def start(self, port: int = 0) -> None:
        """Listen on loopback; `port` lets a stopped receiver come back at the same place."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self.tls)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """The port it listens (or last listened) on."""
        return self._port

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT/`."""
        return self.url_for("/")

    def url_for(self, path: str, host: str = "127.0.0.1") -> str:
        """The URL of a path."""
        return f"http{'s' if self.tls else ''}://{host}:{self._port}{path}"

    def on(self, path: str, *answers: Answer) -> str:
        """Set the answers of a path, given in turn; the last one stays. Returns the path's URL."""
        self._answers[path] = list(answers)
        return self.url_for(path)

    def at(self, path: str) -> list[Received]:
        """What arrived at one path."""
        return [r for r in self.requests if r.path == path]

    async def wait_for(
        self, count: int, timeout: float = 10.0, path: str | None = None
    ) -> list[Received]:
        """Return once `count` requests have come in (at `path`, if given), all of them."""
        try:
            async with asyncio.timeout(timeout):
                while len(found := self.requests if path is None else self.at(path)) < count:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(
                f"{len(found)} of {count} requests within {timeout} s: {found}"
            ) from None
        return list(found)

    def _answer_for(self, request: Received) -> Answer:
        if self.secret is not None:
            try:
                request.verify(self.secret)
            except Exception as error:
                return Answer(401, f"not verified: {error}".encode())
        queue = self._answers.get(request.path, [])
        if not queue:
            return Answer()
        return queue.pop(0) if len(queue) > 1 else queue[0]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        try:
            while (request := await read_request(reader, number)) is not None:
                answer = self._answer_for(request)
                self.requests.append(request)
                self._changed.set()
                if not await write_answer(answer, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


@dataclass(frozen=True, slots=True)
class ThreadedReceiver:
    """A receiver that runs in a thread, for tests that block (processes, the command line)."""

    receiver: Receiver
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        """The root."""
        return self.receiver.url

    @property
    def requests(self) -> list[Received]:
        """All requests so far."""
        return list(self.receiver.requests)

    def on(self, path: str, *answers: Answer) -> str:
        """As `Receiver.on`."""
        return self.receiver.on(path, *answers)

    def wait_for(
        self, count: int, timeout: float = 10.0, path: str | None = None
    ) -> list[Received]:
        """As `Receiver.wait_for`, blocking."""
        waiting = self.receiver.wait_for(count, timeout, path)
        return asyncio.run_coroutine_threadsafe(waiting, self.loop).result(timeout + 5)


@contextmanager
def receiver_in_thread(secret: str | None = None) -> Iterator[ThreadedReceiver]:
    """A running receiver with a loop and a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    receiver = Receiver(secret=secret)
    asyncio.run_coroutine_threadsafe(receiver.start(), loop).result(5)
    try:
        yield ThreadedReceiver(receiver, loop)
    finally:
        asyncio.run_coroutine_threadsafe(receiver.stop(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
