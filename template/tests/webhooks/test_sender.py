"""The sender against a real receiver that misbehaves: the status decides, nothing is sent twice."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.outbox.message import ErrorKind, ParkedReason
from app.webhooks.outcomes import SendFailed
from app.webhooks.sender import Sender, Target
from tests.support.answers import Answer, Fault
from tests.support.certificate import self_signed
from tests.support.postgres import free_port
from tests.support.receiver import Receiver


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    sender = Sender(allow_private=True)
    yield sender
    await sender.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


def target(url: str, total: float = 5.0, connect: float = 2.0) -> Target:
    return Target.of(url, total_seconds=total, connect_seconds=connect)


async def test_the_request_arrives_as_given_and_nothing_is_added(sender, receiver):
    """Body byte for byte, our headers, and only what HTTP needs besides."""
    body = '{"a": "Zoë"}\n'.encode()
    answer = await sender.send(target(receiver.url_for("/h?q=1")), {"webhook-id": "1"}, body)
    assert (answer.status_code, answer.body) == (200, b"ok")
    (got,) = receiver.requests
    assert (got.method, got.path, got.body) == ("POST", "/h?q=1", body)
    assert set(got.headers) == {"host", "webhook-id", "content-length"}


@pytest.mark.parametrize("fault", [Fault.HALF_HEAD, Fault.STALL, Fault.DRIP, Fault.RESET_BODY])
@pytest.mark.parametrize("status", [200, 500])
async def test_a_status_counts_whatever_happens_to_the_rest(sender, receiver, fault, status):
    """Headers or a body that stall, drip or break off neither delay long nor change the status."""
    url = receiver.on("/h", Answer(status, fault=fault))
    started = time.monotonic()
    answer = await sender.send(target(url, total=20), {}, b"{}")
    assert answer.status_code == status
    assert time.monotonic() - started < 5


async def test_a_huge_body_is_cut_and_the_connection_given_up(sender, receiver):
    """2 KiB are kept of a success, 10 KiB of a failure; the rest is not read."""
    ok = receiver.on("/ok", Answer(200, body=b"x" * 5_000_000))
    bad = receiver.on("/bad", Answer(500, body=b"y" * 5_000_000))
    assert len((await sender.send(target(ok), {}, b"{}")).body) == 2 * 1024
    assert len((await sender.send(target(bad), {}, b"{}")).body) == 10 * 1024


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 2049, 70_000])
async def test_a_body_of_any_size_is_kept_up_to_the_cap(sender, receiver, size):
    """Whether it came with the header block or after it; the next request works all the same."""
    body = bytes(range(256)) * (size // 256 + 1)
    url = receiver.on("/h", Answer(200, body=body[:size]))
    for _ in range(3):
        assert (await sender.send(target(url), {}, b"{}")).body == body[: min(size, 2048)]


async def test_204_has_no_body(sender, receiver):
    """No content is success too."""
    answer = await sender.send(target(receiver.on("/h", Answer(204))), {}, b"{}")
    assert (answer.status_code, answer.body) == (204, b"")


async def test_a_compressed_body_is_kept_as_it_came(sender, receiver):
    """Nothing is decompressed: a small bomb stays small."""
    url = receiver.on(
        "/z", Answer(200, body=b"\x1f\x8bnot-gzip", headers=(("Content-Encoding", "gzip"),))
    )
    assert (await sender.send(target(url), {}, b"{}")).body == b"\x1f\x8bnot-gzip"


async def test_connections_are_kept_and_used_again(sender, receiver):
    """Twenty requests in a row need one connection."""
    for _ in range(20):
        await sender.send(target(receiver.url), {}, b"{}")
    assert receiver.connections == 1


async def test_a_dead_kept_connection_is_a_failed_attempt_not_a_second_request(sender, receiver):
    """When a reused connection drops, nobody knows whether the request counted: no re-send."""
    url = receiver.on("/h", Answer(), Answer(fault=Fault.RESET))
    await sender.send(target(url), {}, b"1")
    with pytest.raises(SendFailed) as caught:
        await sender.send(target(url), {}, b"2")
    assert caught.value.kind is ErrorKind.RESET
    assert [r.body for r in receiver.requests] == [b"1", b"2"]
    assert receiver.connections == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.RESET, ErrorKind.RESET),
        (Fault.CLOSE, ErrorKind.RESET),
        (Fault.GARBAGE, ErrorKind.PROTOCOL),
        (Fault.SILENT, ErrorKind.TIMEOUT),
        (Fault.HALF_STATUS, ErrorKind.TIMEOUT),
    ],
)
async def test_no_status_is_told_apart_by_its_cause(sender, receiver, fault, kind):
    """Each way to get no status has its own kind, and the request went out once."""
    url = receiver.on("/h?token=secret", Answer(fault=fault))
    with pytest.raises(SendFailed) as caught:
        await sender.send(target(url, total=0.5), {}, b"{}")
    assert caught.value.kind is kind
    assert caught.value.park is None
    assert "secret" not in caught.value.text
    assert len(receiver.requests) == 1


async def test_of_a_huge_header_block_8_kib_are_kept_and_the_connection_is_given_up(
    sender, receiver
):
    """The status was known before it; no receiver makes us hold more than a bounded block."""
    one = receiver.on("/one", Answer(200, headers=(("x", "y" * 1_000_000),)))
    for _ in range(2):
        answer = await sender.send(target(one), {}, b"{}")
        assert (answer.status_code, answer.head, answer.body) == (
            200, b"Content-Length: 2\r\n", b"",
        )  # fmt: skip
    assert receiver.connections == 2
    headers = tuple((f"x-{i}", "y" * 800) for i in range(90))
    many = receiver.on("/many", Answer(200, headers=headers))
    answer = await sender.send(target(many), {}, b"{}")
    assert answer.status_code == 200
    assert 7_000 < len(answer.head) <= 8 * 1024
    assert answer.head.endswith(b"\r\n")


async def test_a_closed_port_is_a_failed_connection(sender):
    """Refused: the receiver is down."""
    with pytest.raises(SendFailed) as caught:
        await sender.send(target(f"http://127.0.0.1:{free_port()}/"), {}, b"{}")
    assert caught.value.kind is ErrorKind.CONNECT
    assert "Connection refused" in caught.value.text


async def test_a_name_that_does_not_resolve_is_tried_again_not_forbidden(sender):
    """A DNS failure may pass: it parks nothing."""
    with pytest.raises(SendFailed) as caught:
        await sender.send(target("http://nowhere.invalid/"), {}, b"{}")
    assert (caught.value.kind, caught.value.park) == (ErrorKind.DNS, None)


async def test_a_name_without_an_address_is_a_dns_failure(sender, monkeypatch):
    """It exists, and has nothing to connect to."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    with pytest.raises(SendFailed, match="no address") as caught:
        await sender.send(target("http://empty.example.com/"), {}, b"{}")
    assert caught.value.kind is ErrorKind.DNS


async def test_a_name_server_that_does_not_answer_costs_the_connect_timeout(sender, monkeypatch):
    """The lookup counts as connecting, and it stops no other task."""
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answered.wait(30) and [])
    try:
        with pytest.raises(SendFailed) as caught:
            await sender.send(target("http://slow.example.com/", total=20, connect=0.3), {}, b"{}")
        assert caught.value.kind is ErrorKind.TIMEOUT
        assert "no connection" in caught.value.text
    finally:
        answered.set()


async def test_a_redirect_is_not_followed(sender, receiver):
    """A redirect could lead to a forbidden place."""
    url = receiver.on("/from", Answer(307, headers=(("Location", receiver.url_for("/to")),)))
    assert (await sender.send(target(url), {}, b"{}")).status_code == 307
    assert [r.path for r in receiver.requests] == ["/from"]


async def test_the_proxy_of_the_environment_is_ignored(receiver, monkeypatch):
    """A proxy would connect for us, past every check."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    sender = Sender(allow_private=True)
    try:
        assert (await sender.send(target(receiver.url), {}, b"{}")).status_code == 200
    finally:
        await sender.close()


async def test_a_cookie_is_not_kept(sender, receiver):
    """One endpoint's cookies are nobody else's business."""
    url = receiver.on("/h", Answer(200, headers=(("Set-Cookie", "a=b"),)))
    for _ in range(2):
        await sender.send(target(url), {}, b"{}")
    assert all("cookie" not in r.headers for r in receiver.requests)


async def test_a_stopped_task_leaves_no_connection_in_the_pool(sender, receiver):
    """A request cut off half-way must not hand its answer to the next one."""
    url = receiver.on(
        "/slow", Answer(200, body=b"slow", delay_seconds=5), Answer(200, body=b"fast")
    )
    task = asyncio.create_task(sender.send(target(url, total=10), {}, b"1"))
    await receiver.wait_for(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await sender.send(target(url), {}, b"2")).body == b"fast"


async def test_tls_checks_the_certificate_and_its_name(tmp_path: Path):
    """An unknown issuer or another name is a TLS failure; a known one is delivered."""
    certificate, key = self_signed(tmp_path, "localhost")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    stranger, friend = Sender(allow_private=True), Sender(allow_private=True, tls=trusting)
    async with Receiver(tls=server) as receiver:
        try:
            named = target(receiver.url_for("/", host="localhost"))
            assert (await friend.send(named, {}, b"{}")).status_code == 200
            for sender, url in ((stranger, named), (friend, target(receiver.url))):
                with pytest.raises(SendFailed) as caught:
                    await sender.send(url, {}, b"{}")
                assert caught.value.kind is ErrorKind.TLS
        finally:
            await stranger.close()
            await friend.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/", "http://localhost:{port}/"])
async def test_a_forbidden_address_is_never_connected_to(receiver, url):
    """Literal or resolved: with private targets closed, loopback sees no connection."""
    sender = Sender(allow_private=False)
    try:
        with pytest.raises(SendFailed, match="loopback") as caught:
            await sender.send(target(url.format(port=receiver.port)), {}, b"{}")
    finally:
        await sender.close()
    assert (caught.value.kind, caught.value.park) == (
        ErrorKind.FORBIDDEN,
        ParkedReason.FORBIDDEN_TARGET,
    )
    assert receiver.connections == 0
