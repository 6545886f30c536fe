"""Which URLs are refused at write: many ways to spell an inner address. No name is resolved."""

import pytest

from app.errors import BadRequest
from app.webhooks.target import check_url

BAD_URLS = [
    "",
    " ",
    "example.com",
    "//example.com/",
    "/path",
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://example.com/",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    "https:example.com",
    "https:///path",
    "https://",
    "https://?x",
    "https://user@example.com/",
    "https://user:secret@example.com/",
    "https://@example.com/",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com:x/",
    "https://exa mple.com/",
    "https://example.com/a b",
    "https://example.com/\r\nX: y",
    "https://example.com/\x00",
    "https://example.com\\@127.0.0.1/",
    "https://example.com/#fragment",
    "https://ex\u00e4mple.com/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://a..b/",
    "https://-a.com/",
    "https://" + "a" * 64 + ".com/",
    "https://" + "a." * 130 + "com/",
    "https://[::1",
    "https://[fe80::1%25eth0]/",
    "https://[v1.a]/",
    "https://exa%6dple.com/",
    "https://127%2e0.0.1/",
    "https://1.2.3.4.5/",
    "https://256.1.1.1/",
    "https://1.2.3.999/",
    "https://0x.1.1.1.1/",
    "https://example.com/" + "a" * 2000,
]


@pytest.mark.parametrize("url", BAD_URLS, ids=lambda u: repr(u)[:40])
@pytest.mark.parametrize("allow_private", [False, True])
def test_a_text_that_is_no_callable_url_is_refused(url, allow_private):
    """In development too, with the field's name and never with the credentials."""
    with pytest.raises(BadRequest, match=r"^url: ") as caught:
        check_url(url, allow_private=allow_private)
    assert "secret" not in caught.value.message


INSIDE = [
    ("127.0.0.1", True),
    ("127.1", True),
    ("127.0.1", True),
    ("2130706433", True),
    ("0x7f000001", True),
    ("0x7f.0.0.1", True),
    ("0177.0.0.1", True),
    ("017700000001", True),
    ("127.0.0.1.", True),
    ("0", False),
    ("0x0", False),
    ("10.1", True),
    ("0xa9fea9fe", False),
    ("2852039166", False),
    ("169.254.43518", False),
    ("169.254.169.254", False),
    ("0251.0376.0251.0376", False),
    ("[::1]", True),
    ("[0:0:0:0:0:0:0:1]", True),
    ("[::]", False),
    ("[::ffff:127.0.0.1]", True),
    ("[::ffff:7f00:1]", True),
    ("[::ffff:a9fe:a9fe]", False),
    ("[64:ff9b::a9fe:a9fe]", False),
    ("[2002:a9fe:a9fe::]", False),
    ("[fd00:ec2::254]", False),
    ("[fe80::1]", False),
    ("localhost", True),
    ("LOCALHOST", True),
    ("localhost.", True),
    ("a.localhost", True),
    ("localhost.localdomain", True),
    ("ip6-localhost", True),
    ("metadata", False),
    ("metadata.google.internal", False),
    ("METADATA.google.internal.", False),
    ("instance-data.ec2.internal", False),
    ("db", True),
    ("printer.local", True),
    ("vault.internal", True),
    ("nas.lan", True),
    ("x.home.arpa", True),
]


@pytest.mark.parametrize(("host", "opens"), INSIDE)
def test_a_url_that_names_something_inside_is_refused_at_write(host, opens):
    """Without a DNS question: literals in every spelling, and names that are known."""
    url = f"https://{host}:8443/hook"
    with pytest.raises(BadRequest, match="forbidden target"):
        check_url(url, allow_private=False)
    if not opens:
        with pytest.raises(BadRequest, match="forbidden target"):
            check_url(url, allow_private=True)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/",
        "http://example.com:8080/a/b?c=d&e=%20",
        "https://xn--exmple-cua.com/",
        "https://sub.domain.example.co.uk./",
        "https://1.1.1.1/",
        "https://[2606:4700::1111]:8443/x",
        "https://example.com/?mail=a@b.c",
        "https://a_b.example.com/",
        "HTTPS://Example.COM/",
        "https://example.com/" + "a" * 1980,
    ],
)
def test_an_ordinary_url_is_accepted(url):
    """What receivers really use."""
    check_url(url, allow_private=False)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "10.0.0.1", "[::1]", "receiver", "[fc00::1]"]
)
def test_development_may_call_its_neighbours(host):
    """APP_ALLOW_PRIVATE_TARGETS opens loopback, private ranges and names without a dot."""
    check_url(f"http://{host}:9000/", allow_private=True)
