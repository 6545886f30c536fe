"""Which URLs an endpoint may have, judged when it is written; no name is resolved here.

Invariant: a URL that passes is one that the sender can send to, and it names no address or host
that is known to be forbidden. What a name resolves to is judged at connect, each time, by the same
rules (`addresses.py`): a name may point elsewhere tomorrow.
"""

import re
from ipaddress import IPv4Address, IPv6Address

from yarl import URL

from app.errors import BadRequest
from app.webhooks.addresses import OPENABLE, Address, refused

MAX_URL_LENGTH = 2_000
_PRINTABLE = re.compile(r"[!-\[\]-~]+")  # ASCII without space, control characters and backslash
_AUTHORITY = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")

_METADATA_NAMES = ("metadata", "metadata.goog", "instance-data", "metadata.google.internal")
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_PRIVATE_SUFFIXES = ("local", "internal", "localdomain", "lan", "home", "corp", "home.arpa")


def check_url(text: str, *, allow_private: bool) -> None:
    """Raise `BadRequest` naming the rule that the URL breaks."""
    host = _host(text)
    rule = _refused_host(host, allow_private)
    if rule is None:
        return
    hint = "use the address of a public receiver"
    if rule in OPENABLE:
        hint += "; in development APP_ALLOW_PRIVATE_TARGETS=true opens loopback and private targets"
    raise BadRequest(f"url: {host} is a forbidden target ({rule})", hint=hint)


def _host(text: str) -> str:
    if len(text) > MAX_URL_LENGTH:
        raise BadRequest(f"url: {len(text):,} characters; at most {MAX_URL_LENGTH:,} are allowed")
    if not _PRINTABLE.fullmatch(text):
        raise BadRequest(
            "url: only printable ASCII without spaces and backslashes is allowed",
            hint="percent-encode the path, write an international name as xn--…",
        )
    authority = _AUTHORITY.match(text)
    if authority is None:
        scheme = text.partition(":")[0][:20]
        raise BadRequest(f"url: it starts with {scheme!r}; use https:// (or http://) and a host")
    if "@" in authority[0]:
        raise BadRequest("url: it contains credentials; a receiver checks the signature instead")
    try:
        url = URL(text)
        port, host = url.explicit_port, (url.raw_host or "").lower()
    except ValueError:  # its text may quote any part of the URL
        raise BadRequest("url: not a valid URL; check its host and port") from None
    if not host or ("[" in authority[0]) != (":" in host):
        raise BadRequest("url: there is no valid host in it")
    if "#" in text:
        raise BadRequest("url: it has a fragment, which is never sent")
    if port == 0:
        raise BadRequest("url: port 0 can't be called")
    return host


def _refused_host(host: str, allow_private: bool) -> str | None:
    address = _literal(host)
    if address is not None:
        rule = refused(address, allow_private=allow_private)
        if rule is None and str(address) != host and isinstance(address, IPv4Address):
            raise BadRequest(f"url: write the address {host} as {address}")
        return rule
    rule = _rule_of_name(host.removesuffix("."))
    return None if allow_private and rule in OPENABLE else rule


def _literal(host: str) -> Address | None:
    """The address that `host` spells, in any of the forms that some resolver understands."""
    if ":" in host:
        if "%" in host:
            raise BadRequest(f"url: {host} has a zone, so it is link-local")
        return IPv6Address(host)
    labels = host.removesuffix(".").split(".")
    if not _NUMBER.fullmatch(labels[-1]):
        return None
    address = _numeric(labels)
    if address is None:
        raise BadRequest(f"url: {host} ends in a number but is no IPv4 address")
    return address


def _numeric(labels: list[str]) -> IPv4Address | None:
    """`127.1`, `2130706433`, `0x7f.0.0.1`, `0177.0.0.1`: what inet_aton makes of it."""
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        return None
    try:
        *leading, last = [_number(label) for label in labels]
    except ValueError:
        return None
    if any(part > 255 for part in leading) or last >= 256 ** (4 - len(leading)):
        return None
    value = last
    for position, part in enumerate(leading):
        value |= part << (8 * (3 - position))
    return IPv4Address(value)


def _number(label: str) -> int:
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8) if len(label) > 1 and label.startswith("0") else int(label)


def _rule_of_name(name: str) -> str | None:
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadRequest(f"url: {name[:80]!r} is no host name")
    if name in _METADATA_NAMES or labels[0] == "instance-data":
        return "metadata"
    if name in _LOOPBACK_NAMES or labels[-1] == "localhost":
        return "loopback"
    if len(labels) == 1 or name.endswith(tuple(f".{suffix}" for suffix in _PRIVATE_SUFFIXES)):
        return "private"
    return None
