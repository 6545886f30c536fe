"""A server that answers byte for byte as a script says: for what no real server would send."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Wire:
    """Where it listens, and what it has seen."""

    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)  # that TLS clients asked for

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        """The URL of a path."""
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def listening(
    script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", body: int = 2
) -> AsyncGenerator[Wire]:
    """Reads a request whose body has `body` bytes, lets `script` answer, reads the next one."""
    wire, tasks = Wire(), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        wire.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                wire.requests.append(head + await reader.readexactly(body))
                await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    if tls is not None:
        tls.sni_callback = lambda _socket, name, _context: wire.names.append(name)
    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(*chunks: bytes, close: bool = False, hang: bool = False) -> Script:
    """Write the chunks one by one; then close, or say nothing more, or go on."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0)
        if hang:
            await reader.read()
        if close:
            writer.write_eof() if writer.can_write_eof() else writer.close()
            await reader.read()
            raise ConnectionResetError

    return script
