"""Which addresses are refused, at the socket and behind a name. Nothing is connected to."""

import socket
from ipaddress import ip_address

import pytest

from app.outbox.message import ErrorKind, ParkedReason
from app.webhooks.addresses import refused
from app.webhooks.connect import Connector, ForbiddenAddressError, Origin, guarded_socket
from app.webhooks.outcomes import SendFailed
from app.webhooks.sender import Sender, Target

# (address, rule, whether APP_ALLOW_PRIVATE_TARGETS opens it)
FORBIDDEN = [
    ("0.0.0.0", "unspecified", False),
    ("0.1.2.3", "unspecified", False),
    ("10.0.0.1", "private", True),
    ("10.255.255.255", "private", True),
    ("100.64.0.1", "carrier-grade NAT", False),
    ("100.100.100.200", "carrier-grade NAT", False),
    ("127.0.0.1", "loopback", True),
    ("127.255.255.254", "loopback", True),
    ("168.63.129.16", "metadata", False),
    ("169.254.0.1", "link-local", False),
    ("169.254.169.254", "metadata", False),
    ("169.254.170.2", "link-local", False),
    ("172.16.0.1", "private", True),
    ("172.31.255.255", "private", True),
    ("192.0.0.8", "reserved", False),
    ("192.0.0.192", "reserved", False),
    ("192.0.2.1", "documentation", False),
    ("192.88.99.1", "reserved", False),
    ("192.168.1.1", "private", True),
    ("198.18.0.1", "benchmarking", False),
    ("198.51.100.7", "documentation", False),
    ("203.0.113.7", "documentation", False),
    ("224.0.0.1", "multicast", False),
    ("239.255.255.255", "multicast", False),
    ("240.0.0.1", "reserved", False),
    ("255.255.255.255", "broadcast", False),
    ("::", "unspecified", False),
    ("::1", "loopback", True),
    ("::2", "reserved", False),
    ("::127.0.0.1", "reserved", False),
    ("::ffff:127.0.0.1", "loopback", True),
    ("::ffff:10.0.0.1", "private", True),
    ("::ffff:169.254.169.254", "metadata", False),
    ("::ffff:0.0.0.0", "unspecified", False),
    ("::ffff:0:127.0.0.1", "reserved", False),
    ("64:ff9b::7f00:1", "loopback", True),
    ("64:ff9b::a9fe:a9fe", "metadata", False),
    ("64:ff9b::10.0.0.1", "private", True),
    ("64:ff9b:1::7f00:1", "reserved", False),
    ("100::1", "reserved", False),
    ("2001::1", "reserved", False),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "reserved", False),
    ("2001:2::1", "reserved", False),
    ("2001:10::1", "reserved", False),
    ("2001:db8::1", "documentation", False),
    ("2002:7f00:1::", "loopback", True),
    ("2002:a9fe:a9fe::1", "metadata", False),
    ("2002:a00:1::1", "private", True),
    ("2002:e000:1::1", "multicast", False),
    ("3fff::1", "documentation", False),
    ("4000::1", "reserved", False),
    ("5f00::1", "reserved", False),
    ("fc00::1", "private", True),
    ("fd12:3456::1", "private", True),
    ("fd00:ec2::254", "metadata", False),
    ("fd20:ce::254", "metadata", False),
    ("fe80::1", "link-local", False),
    ("fe80::1%eth0", "link-local", False),
    ("febf::1", "link-local", False),
    ("fec0::1", "site-local", False),
    ("ff02::1", "multicast", False),
    ("ff0e::1", "multicast", False),
]
PUBLIC = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450:4001::200e",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2002:101:101::1",
]


@pytest.mark.parametrize(("address", "rule", "opens"), FORBIDDEN)
def test_a_forbidden_address_is_refused_by_its_rule(address, rule, opens):
    """The rule is named, and development opens only loopback and private ranges."""
    assert refused(address, allow_private=False) == rule
    assert refused(address, allow_private=True) == (None if opens else rule)


@pytest.mark.parametrize("address", ["127.1", "2130706433", "0177.0.0.1", "", "localhost"])
def test_what_can_not_be_read_as_an_address_is_refused(address):
    """A socket understands more spellings than `ipaddress` does."""
    assert refused(address, allow_private=True) == "unreadable"


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address):
    """The neighbours of every forbidden range stay open."""
    assert refused(address, allow_private=False) is None


@pytest.mark.parametrize(("address", "rule", "opens"), FORBIDDEN)
def test_no_socket_is_made_for_a_forbidden_address(address, rule, opens):
    """At the socket factory: judged again, whoever resolved the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    place = (address, 443, 0, 0) if ":" in address else (address, 443)
    info = (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place)
    with pytest.raises(ForbiddenAddressError, match=rule):
        guarded_socket(info, allow_private=False)
    if opens:
        guarded_socket(info, allow_private=True).close()
    else:
        with pytest.raises(ForbiddenAddressError, match=rule):
            guarded_socket(info, allow_private=True)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every connect of the operating system's socket; none is carried out."""
    tried: list[object] = []

    def connect(_: socket.socket, address: object) -> None:
        tried.append(address)
        raise ConnectionRefusedError("tests connect nowhere")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    return tried


def _answers(*addresses: str):
    def getaddrinfo(host, port, family=0, kind=0, *_: object):
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    return getaddrinfo


async def _refusal(url: str, *, allow_private: bool) -> SendFailed:
    sender = Sender(allow_private=allow_private)
    target = Target.of(url, total_seconds=5, connect_seconds=5)
    try:
        with pytest.raises(SendFailed) as caught:
            await sender.send(target, {}, b"{}")
    finally:
        await sender.close()
    return caught.value


@pytest.mark.parametrize(("address", "rule", "opens"), FORBIDDEN)
async def test_a_name_that_points_inside_is_never_connected_to(
    address, rule, opens, connections, monkeypatch
):
    """DNS answers are judged before any socket exists; the message parks with the reason."""
    monkeypatch.setattr(socket, "getaddrinfo", _answers(address))
    failure = await _refusal("https://hooks.example.com/", allow_private=False)
    assert (failure.kind, failure.park) == (ErrorKind.FORBIDDEN, ParkedReason.FORBIDDEN_TARGET)
    assert rule in failure.text
    assert connections == []


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fd00:ec2::254", "fe80::1", "::ffff:169.254.169.254", "::"]
)
async def test_a_literal_address_is_judged_though_no_resolver_is_asked(address, connections):
    """allow_private does not open these."""
    url = f"http://[{address}]/" if ":" in address else f"http://{address}/"
    failure = await _refusal(url, allow_private=True)
    assert failure.park is ParkedReason.FORBIDDEN_TARGET
    assert connections == []


async def test_one_forbidden_address_among_good_ones_refuses_the_name(connections, monkeypatch):
    """An attacker who mixes a public address in gains nothing."""
    monkeypatch.setattr(socket, "getaddrinfo", _answers("1.1.1.1", "10.0.0.1"))
    failure = await _refusal("https://hooks.example.com/", allow_private=False)
    assert failure.park is ParkedReason.FORBIDDEN_TARGET
    assert connections == []


async def test_a_name_is_resolved_once_so_rebinding_gains_nothing(connections, monkeypatch):
    """The second answer (inside) is never asked for: what was checked is what is connected to."""
    lookups = []

    def rebinding(host, port, *rest: object):
        lookups.append(host)
        return _answers("1.1.1.1" if len(lookups) == 1 else "127.0.0.1")(host, port)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    failure = await _refusal("http://rebind.example.com/", allow_private=False)
    assert failure.kind is ErrorKind.CONNECT
    assert lookups == ["rebind.example.com"]
    assert connections == [("1.1.1.1", 80)]


async def test_the_resolver_hands_out_addresses_never_names():
    """What is connected to is numeric."""
    connector = Connector(allow_private=True)
    found = await connector.resolve(Origin(secure=False, host="localhost", port=80))
    connector.close()
    assert found
    assert all(ip_address(address[0]).is_loopback for *_, address in found)
