"""The owner's own headers of an endpoint, and its basic or bearer credentials.

Invariant: what is stored can be sent and can't change how the request is read: no header that the
sender writes itself, no line break. Values are encrypted at rest, never shown again, never logged;
names stay readable, so that people see what is set.
"""

import base64
import re
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.cipher import Cipher
from app.errors import BadRequest
from app.webhooks.client_certificate import CertificateShown, check_certificate

MASK = "••••••"
AUTHORIZATION, CERTIFICATE = "authorization", "client_certificate"  # keys of the column `auth`
MOST_HEADERS = 20
NAME_LENGTH, VALUE_LENGTH = 100, 2000

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset({
    "host", "content-length", "content-type", "transfer-encoding", "connection", "keep-alive",
    "expect", "te", "trailer", "upgrade", "proxy-authorization", "proxy-connection", "user-agent",
    "traceparent", "tracestate",
})  # fmt: skip


class Basic(Struct, frozen=True, forbid_unknown_fields=True, tag="basic", tag_field="kind"):
    """`Authorization: Basic …`."""

    username: str
    password: str


class Bearer(Struct, frozen=True, forbid_unknown_fields=True, tag="bearer", tag_field="kind"):
    """`Authorization: Bearer …`."""

    token: str


Auth = Basic | Bearer


class AuthShown(Struct, frozen=True):
    """What is shown of it."""

    kind: str


def check_headers(headers: dict[str, str]) -> None:
    """Raise `BadRequest` naming the header and the rule it breaks; never its value."""
    if len(headers) > MOST_HEADERS:
        raise BadRequest(f"headers: {len(headers)}; at most {MOST_HEADERS} are allowed")
    for name, value in headers.items():
        lower = name.lower()
        if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH:
            raise BadRequest(f"headers: {name[:NAME_LENGTH]!r} is not a header name")
        if lower == "authorization":
            raise BadRequest("headers: authorization is set by the field auth")
        if lower in _OURS or lower.startswith("webhook-"):
            raise BadRequest(f"headers: {lower} is written by the sender and can't be set")
        _check_value(f"headers: the value of {lower}", value)
    if len({name.lower() for name in headers}) < len(headers):
        raise BadRequest("headers: the same name twice; upper and lower case are the same")


def check_auth(auth: Auth) -> None:
    """Raise `BadRequest` for credentials that can't be sent."""
    match auth:
        case Basic(username=username) if ":" in username:
            raise BadRequest("auth.username: a colon ends the name in basic authentication")
        case Basic(username=username, password=password):
            if any(ord(c) < 32 or ord(c) == 127 for c in username + password):
                raise BadRequest("auth: a control character in username or password")
            _check_value("auth", _authorization(auth))
        case Bearer(token=token):
            _check_value("auth.token", token)
            if " " in token:
                raise BadRequest("auth.token: a token has no space")


def _check_value(what: str, value: str) -> None:
    if not 0 < len(value) <= VALUE_LENGTH:
        raise BadRequest(f"{what} has {len(value)} characters; 1 to {VALUE_LENGTH} are allowed")
    if not (value.isascii() and value.isprintable()) or value != value.strip():
        raise BadRequest(f"{what} is not printable ASCII without space at its ends")


def _authorization(auth: Auth) -> str:
    match auth:
        case Basic(username=username, password=password):
            pair = f"{username}:{password}".encode(errors="surrogatepass")
            return "Basic " + base64.b64encode(pair).decode()
        case Bearer(token=token):
            return f"Bearer {token}"


def sealed_headers(cipher: Cipher, headers: dict[str, str] | None) -> dict[str, str] | None:
    """As the column `headers` stores them: names readable, values encrypted."""
    if not headers:
        return None
    return {name.lower(): _seal(cipher, value) for name, value in headers.items()}


def sealed_auth(
    cipher: Cipher,
    stored: Any,
    auth: Auth | UnsetType | None = UNSET,
    certificate: str | UnsetType | None = UNSET,
) -> dict[str, dict[str, str]] | None:
    """As the column `auth` stores both credentials; one that is not given stays as it is stored."""
    found: dict[str, dict[str, str]] = dict(stored or {})
    if auth is None:
        found.pop(AUTHORIZATION, None)
    elif not isinstance(auth, UnsetType):
        kind = "basic" if isinstance(auth, Basic) else "bearer"
        found[AUTHORIZATION] = {"kind": kind, "value": _seal(cipher, _authorization(auth))}
    if certificate is None:
        found.pop(CERTIFICATE, None)
    elif not isinstance(certificate, UnsetType):
        shown = msgspec.to_builtins(check_certificate(certificate))
        found[CERTIFICATE] = shown | {"value": _seal(cipher, certificate)}
    return found or None


def opened(cipher: Cipher, headers: Any, auth: Any) -> dict[str, str]:
    """The headers to send, decrypted."""
    found = {name: _open(cipher, value) for name, value in (headers or {}).items()}
    if auth and AUTHORIZATION in auth:
        found[AUTHORIZATION] = _open(cipher, auth[AUTHORIZATION]["value"])
    return found


def client_certificate(cipher: Cipher, auth: Any) -> bytes | None:
    """The PEM text to show by TLS, decrypted."""
    stored = (auth or {}).get(CERTIFICATE)
    return None if stored is None else _open(cipher, stored["value"]).encode()


def auth_shown(auth: Any) -> AuthShown | None:
    """What is shown of the column `auth`: the kind of `authorization`."""
    stored = (auth or {}).get(AUTHORIZATION)
    return None if stored is None else AuthShown(stored["kind"])


def certificate_shown(auth: Any) -> CertificateShown | None:
    """And of the client certificate."""
    stored = (auth or {}).get(CERTIFICATE)
    return (
        None
        if stored is None
        else msgspec.convert(
            {"subject": stored["subject"], "expires_at": stored["expires_at"]}, CertificateShown
        )
    )


def masked(headers: Any) -> dict[str, str]:
    """What is shown of the column `headers`."""
    return dict.fromkeys(headers or {}, MASK)


def _seal(cipher: Cipher, value: str) -> str:
    return base64.b64encode(cipher.encrypt(value.encode())).decode()


def _open(cipher: Cipher, stored: str) -> str:
    return cipher.decrypt(base64.b64decode(stored)).decode()
