"""The sender's wire against answers that real and hostile receivers give, byte for byte.

Each answer is tried on both event loops, in plain text and over TLS.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from app.outbox.message import ErrorKind, Response
from app.webhooks.http1 import BODY_READ_BYTES, FAILURE_BODY_BYTES, HEAD_READ_BYTES
from app.webhooks.outcomes import SendFailed
from app.webhooks.sender import Sender, Target
from tests.support.certificate import self_signed
from tests.support.wire import Script, Wire, answering, listening

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
BIG_HEADER = b"X: " + b"h" * (HEAD_READ_BYTES + 10)


class Peer(NamedTuple):
    """How the two ends speak."""

    scheme: str
    sender: Sender
    server: ssl.SSLContext | None

    async def send(self, wire: Wire, *, total: float = 5.0, body: bytes = b"{}") -> Response:
        """One request to the server."""
        url = wire.url(host="localhost" if self.server else "127.0.0.1", scheme=self.scheme)
        target = Target.of(url, total_seconds=total, connect_seconds=total)
        return await self.sender.send(target, {"webhook-id": "1"}, body)


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return ("asyncio", {"use_uvloop": request.param})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("tls"), "localhost")


@pytest.fixture(params=["http", "https"])
async def peer(request: pytest.FixtureRequest, certificate) -> AsyncIterator[Peer]:
    server = trusting = None
    if request.param == "https":
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(*certificate)
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
    sender = Sender(allow_private=True, tls=trusting)
    yield Peer(request.param, sender, server)
    await sender.close()


def bytewise(answer: bytes, close: bool = False) -> Script:
    """One byte a write."""
    return answering(*(bytes([byte]) for byte in answer), close=close)


DELIVERED = {
    "a plain answer": answering(OK),
    "single bytes": bytewise(OK),
    "chunked": answering(CHUNKED),
    "chunked in single bytes": bytewise(CHUNKED),
    "no reason phrase": answering(b"HTTP/1.1 204\r\n\r\n"),
    "100 and 103 before 200": answering(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", OK
    ),
    "100 and 200 in single bytes": bytewise(b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
    "HTTP/1.0 until the end of the connection": answering(b"HTTP/1.0 200 OK\r\n\r\nok", close=True),
    "a half-close behind the answer": answering(OK, close=True),
    "a body cut off": answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", close=True),
    "a bad chunk": answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    "a body that stalls": answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\no", hang=True),
    "headers that stall": answering(b"HTTP/1.1 200 OK\r\nServer: x\r\nA", hang=True),
    "a status line that stalls behind its end": answering(b"HTTP/1.1 200 OK\r\n", hang=True),
    "a bad header behind the status": answering(b"HTTP/1.1 200 OK\r\n\x00bad\r\n\r\n", hang=True),
    "two lengths": answering(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"
    ),
    "a negative length": answering(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", hang=True),
    "a second answer in the same bytes": answering(OK + b"HTTP/1.1 500 No\r\n\r\n"),
    "garbage behind the answer": answering(OK + b"garbage"),
    "a huge header after the status": answering(b"HTTP/1.1 200 OK\r\n", BIG_HEADER, hang=True),
    "a large first read": answering(
        b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60_000
    ),
}


@pytest.mark.parametrize("name", DELIVERED)
async def test_a_2xx_status_line_is_a_delivery_whatever_follows(peer: Peer, name: str):
    """The status line decides; the rest of the answer has one second."""
    async with listening(DELIVERED[name], tls=peer.server) as wire:
        started = time.monotonic()
        answer = await peer.send(wire, total=20)
        assert answer.status_code in (200, 204)
        assert time.monotonic() - started < 10
        assert len(wire.requests) == 1


FAILED: dict[str, tuple[Script, ErrorKind]] = {
    "close without an answer": (answering(close=True), ErrorKind.RESET),
    "a status line cut off": (answering(b"HTTP/1.1 20", close=True), ErrorKind.RESET),
    "a reason phrase cut off": (answering(b"HTTP/1.1 200 O", close=True), ErrorKind.RESET),
    "a reason phrase that stalls": (answering(b"HTTP/1.1 200 O", hang=True), ErrorKind.TIMEOUT),
    "a cut status line behind a 100": (
        answering(b"HTTP/1.1 100 Cont", b"inue\r\n\r\nHTTP/1.1 20", close=True),
        ErrorKind.RESET,
    ),
    "garbage": (answering(b"\x00\xff nonsense\r\n\r\n"), ErrorKind.PROTOCOL),
    "another protocol": (answering(b"SSH-2.0-OpenSSH_9.2\r\n", hang=True), ErrorKind.PROTOCOL),
    "a bare line feed first": (answering(b"\nHTTP/1.1 x\n", hang=True), ErrorKind.PROTOCOL),
    "status 999": (answering(b"HTTP/1.1 999 No\r\n\r\n", hang=True), ErrorKind.PROTOCOL),
    "status 99": (answering(b"HTTP/1.1 99 No\r\n\r\n", hang=True), ErrorKind.PROTOCOL),
    "status 2000": (answering(b"HTTP/1.1 2000 No\r\n\r\n", hang=True), ErrorKind.PROTOCOL),
    "switching protocols": (
        answering(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        ErrorKind.PROTOCOL,
    ),
    "endless headers": (
        answering(b"HTTP/1.1 103 Early Hints\r\n", BIG_HEADER, hang=True),
        ErrorKind.PROTOCOL,
    ),
    "silence": (answering(hang=True), ErrorKind.TIMEOUT),
}


@pytest.mark.parametrize("name", FAILED)
async def test_without_a_status_line_nothing_is_delivered_and_the_cause_is_told(
    peer: Peer, name: str
):
    """Each cause has its kind; the request went out once; no path and no query in the text."""
    script, kind = FAILED[name]
    async with listening(script, tls=peer.server) as wire:
        with pytest.raises(SendFailed) as raised:
            await peer.send(wire, total=1.5)
        assert (raised.value.kind, raised.value.park) == (kind, None)
        assert str(wire.port) in raised.value.text
        assert len(wire.requests) == 1


async def test_a_length_beside_chunks_does_not_change_the_status(peer: Peer):
    """Smuggling needs a reader who goes on: here the connection ends."""
    head = b"HTTP/1.1 404 No\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with listening(answering(head, hang=True), tls=peer.server) as wire:
        for _ in range(2):
            assert (await peer.send(wire)).status_code == 404
        assert wire.connections == 2


async def test_an_endless_body_is_cut_off_and_only_its_beginning_kept(peer: Peer):
    """Memory does not follow the receiver."""

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 X\r\nContent-Length: 200000000\r\n\r\n")
        while True:
            writer.write(b"x" * BODY_READ_BYTES)
            await writer.drain()

    async with listening(endless, tls=peer.server) as wire:
        answer = await peer.send(wire)
        assert (answer.status_code, len(answer.body)) == (500, FAILURE_BODY_BYTES)


OUT_OF_STEP = {
    "a second answer": OK + OK,
    "a byte too many": OK + b"x",
    "Connection: close": OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n", 1),
    "a bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("name", OUT_OF_STEP)
async def test_a_connection_out_of_step_is_not_used_again(peer: Peer, name: str):
    """The next request must not take the leftovers of the last for its answer."""
    async with listening(answering(OUT_OF_STEP[name]), tls=peer.server) as wire:
        for _ in range(2):
            assert (await peer.send(wire)).status_code == 200
        assert wire.connections == 2


async def test_bytes_that_come_while_a_connection_rests_are_never_an_answer(peer: Peer):
    """A receiver that answers ahead is asked on a new connection; nothing counts unasked."""
    ahead = asyncio.Event()

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        if not ahead.is_set():
            await asyncio.sleep(0.05)  # the answer is read by now: these bytes come alone
            writer.write(OK)
            await writer.drain()
            ahead.set()

    async with listening(script, tls=peer.server) as wire:
        await peer.send(wire)
        await ahead.wait()
        await peer.send(wire)
        assert wire.connections == 2
        assert len(wire.requests) == 2


async def test_connections_are_reused_one_after_another(peer: Peer):
    """Ten requests in a row need one connection, chunked answers or not."""
    async with listening(answering(CHUNKED), tls=peer.server) as wire:
        for _ in range(10):
            await peer.send(wire)
        assert wire.connections == 1


async def test_an_answer_before_the_whole_request_is_taken_and_the_connection_closed(peer: Peer):
    """A receiver that refuses a large body early has still answered; the rest is not written."""
    size = 8_000_000
    read: list[int] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        read.append(0)
        while data := await reader.read(65536):  # go on reading, or TCP throws the answer away
            read[-1] += len(data)

    async with listening(script, tls=peer.server, body=0) as wire:
        for _ in range(2):
            answer = await peer.send(wire, total=20, body=b"x" * size)
            assert answer.status_code == 413
        assert wire.connections == 2
        assert all(count < size for count in read)


async def test_a_large_body_arrives_whole_at_a_slow_reader(peer: Peer):
    """What the socket does not take at once is written when it does."""
    body = bytes(range(256)) * 8_000
    async with listening(answering(OK), tls=peer.server, body=len(body)) as wire:
        assert (await peer.send(wire, total=20, body=body)).status_code == 200
        assert wire.requests[0].endswith(b"\r\n\r\n" + body)
