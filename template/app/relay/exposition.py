"""`/metrics` of a process that only relays: the one thing it answers over HTTP.

No key and no TLS: it listens on loopback unless told otherwise, and what it says are counts.
Invariant: a stranger on this port costs a few bytes and a few seconds, never the relay.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

HEAD_SECONDS = 5.0
AT_ONCE = 16


@asynccontextmanager
async def exposed(registry: CollectorRegistry, listener: socket.socket) -> AsyncGenerator[None]:
    """Answer on that socket for as long as the block lasts."""
    places = asyncio.Semaphore(AT_ONCE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS), places:
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, registry))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, sock=listener)
    try:
        yield
    finally:
        server.close()


def _answer(head: bytes, registry: CollectorRegistry) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
    if method != b"GET" or path != b"/metrics":
        return _response("404 Not Found", "text/plain", b"GET /metrics is all there is\n")
    return _response("200 OK", CONTENT_TYPE_LATEST, generate_latest(registry))


def _response(status: str, kind: str, body: bytes) -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body
