"""How the sender connects, keeps connections and builds requests: over real sockets."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.outbox.message import ErrorKind, ParkedReason
from app.webhooks.outcomes import SendFailed
from app.webhooks.sender import Sender, Target
from tests.support.certificate import self_signed
from tests.support.wire import answering, listening

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return ("asyncio", {"use_uvloop": request.param})


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    sender = Sender(allow_private=True)
    yield sender
    await sender.close()


def target(url: str, connect: float = 5.0) -> Target:
    return Target.of(url, total_seconds=10, connect_seconds=connect)


def resolving_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Let every name have these addresses; the names asked for."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, *_: object) -> list[object]:
        asked.append(host)
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


async def test_tls_names_the_host_while_the_socket_goes_to_the_checked_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """SNI, Host and the certificate are those of the name; it was resolved once."""
    certificate, key = self_signed(tmp_path, "hooks.example.com")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    sender = Sender(allow_private=True, tls=ssl.create_default_context(cafile=str(certificate)))
    async with listening(answering(OK), tls=server) as wire:
        asked = resolving_to(monkeypatch, "127.0.0.1")
        url = wire.url(host="hooks.example.com", scheme="https")
        try:
            assert (await sender.send(target(url), {}, b"{}")).status_code == 200
        finally:
            await sender.close()
        assert wire.names == ["hooks.example.com"]
        assert f"\r\nhost: hooks.example.com:{wire.port}\r\n".encode() in wire.requests[0]
        assert asked == ["hooks.example.com"]


@pytest.mark.parametrize("first", ["127.0.0.2", "::1"])
async def test_the_next_address_is_tried_when_one_refuses(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, first: str
):
    """In the resolver's order; an address family that this machine lacks is one that refuses."""
    async with listening(answering(OK)) as wire:
        resolving_to(monkeypatch, first, "127.0.0.1")
        url = wire.url(host="two.example.com")
        assert (await sender.send(target(url), {}, b"{}")).status_code == 200


async def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
):
    """A packet filter that drops must not use up the whole connect timeout."""
    async with listening(answering(OK)) as wire:
        with socket.create_server(("127.0.0.2", wire.port), backlog=0) as full:
            waiting = []
            for _ in range(4):  # beyond the backlog the kernel drops what comes
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
                waiting.append(filler)
            resolving_to(monkeypatch, "127.0.0.2", "127.0.0.1")
            url = wire.url(host="two.example.com")
            answer = await sender.send(target(url, connect=2.0), {}, b"{}")
            for filler in waiting:
                filler.close()
        assert answer.status_code == 200


async def test_a_server_that_accepts_and_never_speaks_tls_costs_the_connect_timeout(
    sender: Sender,
):
    """The handshake belongs to connecting; its timeout is told apart from a missing answer."""
    async with listening(answering(hang=True)) as wire:
        with pytest.raises(SendFailed, match="no connection") as caught:
            await sender.send(target(wire.url(scheme="https"), connect=0.3), {}, b"{}")
    assert caught.value.kind is ErrorKind.TIMEOUT


async def test_plain_text_on_a_tls_port_is_a_tls_failure(sender: Sender):
    """No status was seen, so nothing it says counts."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SendFailed) as caught:
            await sender.send(target(f"https://127.0.0.1:{port}/"), {}, b"{}")
    finally:
        server.close()
    assert caught.value.kind is ErrorKind.TLS


async def test_one_lookup_serves_all_who_wait_for_the_same_name(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
):
    """A burst to one host does not hold a resolver thread for each request."""
    async with listening(answering(OK)) as wire:
        asked = resolving_to(monkeypatch, "127.0.0.1")
        place = target(wire.url(host="burst.example.com"))
        await asyncio.gather(*(sender.send(place, {}, b"{}") for _ in range(10)))
        assert len(wire.requests) == 10
        assert len(asked) < 10


async def test_a_connection_that_rests_is_closed_by_us(monkeypatch: pytest.MonkeyPatch):
    """Before the usual server would: not to write into a connection that is just closing."""
    ended = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        if not await reader.read(1):
            ended.set()
        raise ConnectionResetError

    sender = Sender(allow_private=True, idle_seconds=0.05)
    async with listening(script) as wire:
        await sender.send(target(wire.url()), {}, b"{}")
        async with asyncio.timeout(10):
            await ended.wait()
        await sender.send(target(wire.url()), {}, b"{}")
        assert wire.connections == 2
    await sender.close()


BAD_HEADERS = {
    "a line break": {"x-a": "b\r\nx-c: d"},
    "a bare line feed": {"x-a": "b\nx-c: d"},
    "a carriage return": {"x-a": "b\rc"},
    "a NUL": {"x-a": "b\x00c"},
    "not ASCII": {"x-a": "Zoë"},
    "half a surrogate": {"x-a": "\ud800"},
    "a colon in the name": {"x-a: b\r\nx": "c"},
    "a name with a space": {"x a": "b"},
    "an empty name": {"": "b"},
    "another host": {"Host": "elsewhere.example.com"},
    "another length": {"content-length": "0"},
    "chunks": {"Transfer-Encoding": "chunked"},
    "an upgrade": {"upgrade": "h2c"},
    "an expectation": {"Expect": "100-continue"},
}


@pytest.mark.parametrize("name", BAD_HEADERS)
async def test_a_header_that_would_change_the_request_is_refused(sender: Sender, name: str):
    """Refused, not cleaned: the message parks, nothing has been connected to."""
    async with listening(answering(OK)) as wire:
        for _ in range(2):
            with pytest.raises(SendFailed) as caught:
                await sender.send(target(wire.url()), BAD_HEADERS[name], b"{}")
            assert caught.value.park is ParkedReason.UNDELIVERABLE
        assert wire.connections == 0


@pytest.mark.parametrize(
    "path", ["/a\r\nx-b: c", "/a b", "/ä?q=ü", "/\x00", "/%0d%0a", "?\nx", '/<">{}|^`']
)
def test_a_path_stays_in_the_request_line(path: str):
    """Whatever is stored, the request line and Host are two lines of printable ASCII."""
    try:
        head = target(f"http://hooks.example.com{path}").head
    except ValueError:
        return
    line, host, rest = head.decode("ascii").split("\r\n")
    assert line.startswith("POST /")
    assert line.endswith(" HTTP/1.1")
    assert line.count(" ") == 2
    assert (line + host).isprintable()
    assert (host, rest) == ("host: hooks.example.com", "")


async def test_nothing_is_offered_that_is_not_spoken(sender: Sender):
    """No compression, no upgrade, no Expect: a receiver can't choose what was not offered."""
    async with listening(answering(OK)) as wire:
        await sender.send(target(wire.url("/h?q=1")), {"webhook-id": "1"}, b"{}")
        assert wire.requests == [
            b"POST /h?q=1 HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nwebhook-id: 1\r\n"
            b"content-length: 2\r\n\r\n{}" % wire.port
        ]
