"""The sender's wire against answers that real and hostile receivers give, byte for byte."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from app.outbox.message import ErrorKind, Response
from app.webhooks.client import Client, Origin
from app.webhooks.http1 import BODY_READ, FAILURE_BODY, HEAD_READ, SUCCESS_BODY, SendFailed

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


@asynccontextmanager
async def server(script: Script, body: int = 2) -> AsyncIterator[Origin]:
    """A server that reads one request after another and lets `script` write each answer."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(body)
                await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Origin("http", "127.0.0.1", listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        for task in tasks:
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
            raise ConnectionResetError

    return script


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Production runs on uvloop, whose transports behave a little differently."""
    return ("asyncio", {"use_uvloop": request.param})


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client(allow_private=True)
    yield client
    await client.close()


async def send(client: Client, origin: Origin, total: float = 5.0) -> Response:
    return await client.send(origin, REQUEST, total_seconds=total, connect_seconds=2.0)


BIG_HEADER = b"X: " + b"h" * (HEAD_READ + 10)
ACCEPTED = {
    "a plain answer": answering(OK),
    "single bytes": answering(*(bytes([b]) for b in OK)),
    "chunked in single bytes": answering(
        *(
            bytes([b])
            for b in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        )
    ),
    "no reason phrase": answering(b"HTTP/1.1 204\r\n\r\n"),
    "100 and 103 before 200": answering(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", OK
    ),
    "HTTP/1.0 until the end of the connection": answering(b"HTTP/1.0 200 OK\r\n\r\nok", close=True),
    "a body cut off": answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", close=True),
    "a bad chunk": answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    "a body that stalls": answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\no", hang=True),
    "headers that stall": answering(b"HTTP/1.1 200 OK\r\nServer: x\r\nA", hang=True),
    "a second answer in the same bytes": answering(OK + OK),
    "garbage behind the answer": answering(OK + b"garbage"),
    "a huge header after the status": answering(b"HTTP/1.1 200 OK\r\n", BIG_HEADER, hang=True),
    "a large first read": answering(
        b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60000
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
async def test_a_2xx_status_line_is_a_delivery_whatever_follows(client: Client, name: str):
    """The status decides; the rest of the answer has one second."""
    async with server(ACCEPTED[name]) as origin:
        started = time.monotonic()
        answer = await send(client, origin)
        assert answer.status_code in (200, 204)
        assert time.monotonic() - started < 3


REFUSED = {
    "close without an answer": (answering(close=True), ErrorKind.RESET),
    "a status line cut off": (answering(b"HTTP/1.1 20", close=True), ErrorKind.RESET),
    "garbage": (answering(b"\x00\xff nonsense\r\n\r\n"), ErrorKind.PROTOCOL),
    "length and chunked": (
        answering(
            b"HTTP/1.1 404 No\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
            close=True,
        ),
        None,
    ),
    "status 999": (answering(b"HTTP/1.1 999 No\r\n\r\n"), ErrorKind.PROTOCOL),
    "switching protocols": (
        answering(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        ErrorKind.PROTOCOL,
    ),
    "endless headers": (
        answering(b"HTTP/1.1 100 Continue\r\n", BIG_HEADER, hang=True),
        ErrorKind.PROTOCOL,
    ),
    "silence": (answering(hang=True), ErrorKind.TIMEOUT),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_no_2xx_never_counts_as_one(client: Client, name: str):
    """Without a status the error says at which step it went wrong."""
    script, kind = REFUSED[name]
    async with server(script) as origin:
        if kind is None:
            assert (await send(client, origin)).status_code == 404
            return
        with pytest.raises(SendFailed) as raised:
            await send(client, origin, total=1.0)
        assert raised.value.kind is kind


async def test_an_endless_body_is_cut_off_and_only_its_beginning_kept(client: Client):
    """2 KiB of a success, 10 KiB of a failure; memory does not follow the receiver."""

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 200000000\r\n\r\n" % status)
        while True:
            writer.write(b"x" * BODY_READ)
            await writer.drain()

    for status, kept in ((200, SUCCESS_BODY), (500, FAILURE_BODY)):
        async with server(endless) as origin:
            answer = await send(client, origin)
            assert (answer.status_code, len(answer.body)) == (status, kept)


async def test_connections_are_reused_one_after_another(client: Client):
    """Ten requests in a row need one connection."""
    connections = set()

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer.get_extra_info("peername"))
        writer.write(OK)

    async with server(script) as origin:
        for _ in range(10):
            await send(client, origin)
    assert len(connections) == 1


@pytest.mark.parametrize(
    "first",
    [OK + OK, OK + b"x", OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n", 1)],
    ids=["a second answer", "a byte too many", "connection: close"],
)
async def test_a_connection_out_of_step_is_not_used_again(client: Client, first: bytes):
    """The next request must not take the leftovers of the last for its answer."""
    connections = []

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer.get_extra_info("peername"))
        writer.write(first)

    async with server(script) as origin:
        await send(client, origin)
        await send(client, origin)
    assert len(set(connections)) == 2


async def test_a_request_on_a_connection_that_the_peer_drops_is_not_sent_again(client: Client):
    """Whether the receiver acted on it is unknown, so it is a failed attempt, counted once."""
    seen = []

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(1)
        if len(seen) == 2:
            raise ConnectionResetError
        writer.write(OK)

    async with server(script) as origin:
        await send(client, origin)
        with pytest.raises(SendFailed) as raised:
            await send(client, origin)
    assert raised.value.kind is ErrorKind.RESET
    assert len(seen) == 2


async def test_an_answer_before_the_whole_request_is_taken_and_the_connection_closed(
    client: Client,
):
    """A receiver that refuses a large body early has still answered."""
    connections = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer.get_extra_info("peername"))
        writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        while await reader.read(65536):  # go on reading, or TCP throws the answer away
            pass

    big = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n" + b"x" * 50_000_000
    async with server(script, body=0) as origin:
        for _ in range(2):
            answer = await client.send(origin, big, total_seconds=5, connect_seconds=1)
            assert answer.status_code == 413
    assert len(set(connections)) == 2


async def test_a_refused_port_and_an_unknown_name_are_told_apart(client: Client):
    """Connect and DNS failures are two kinds."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = Origin("http", "127.0.0.1", taken.getsockname()[1])
    for origin, kind in (
        (closed, ErrorKind.CONNECT),
        (Origin("http", "no-such-name.invalid", 80), ErrorKind.DNS),
    ):
        with pytest.raises(SendFailed) as raised:
            await send(client, origin)
        assert raised.value.kind is kind


async def test_a_forbidden_address_is_refused_before_a_socket_is_opened(monkeypatch):
    """Also when a name resolves to it: every address of the name is judged."""

    def no_socket(*_: object, **__: object) -> socket.socket:
        raise AssertionError("a socket was opened")

    client = Client(allow_private=False)
    monkeypatch.setattr("app.webhooks.client.socket.socket", no_socket)
    for host in ("127.0.0.1", "::1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"):
        with pytest.raises(SendFailed) as raised:
            await send(client, Origin("http", host, 9))
        assert raised.value.kind is ErrorKind.FORBIDDEN
    await client.close()


async def test_plain_text_on_a_tls_port_is_a_tls_failure(client: Client):
    """The handshake fails, no status was seen."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 plain text\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    origin = Origin("https", "localhost", listening.sockets[0].getsockname()[1])
    with pytest.raises(SendFailed) as raised:
        await send(client, origin)
    assert raised.value.kind is ErrorKind.TLS
    listening.close()
