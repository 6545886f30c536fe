"""A TCP proxy on loopback that can go silent: what a half-open connection looks like."""

import asyncio
from typing import Self


class Proxy:
    """Forwards to a port of loopback, until it is told not to."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._forwards, self._answers = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.speak()

    def silence(self, *, only_answers: bool = False) -> None:
        """From now on bytes vanish (or the server's alone), and nothing is closed."""
        self._answers.clear()
        if not only_answers:
            self._forwards.clear()

    def speak(self) -> None:
        """Forward again; what was held back comes too."""
        self._forwards.set()
        self._answers.set()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(their_writer)
            await asyncio.gather(
                self._pump(reader, their_writer, self._forwards),
                self._pump(their_reader, writer, self._answers),
            )
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may: asyncio.Event
    ) -> None:
        try:
            while data := await reader.read(65536):
                await may.wait()
                writer.write(data)
                await writer.drain()
            await may.wait()  # while it is silent, an end is not seen either
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
