"""One POST to a receiver, over kept-alive connections of our own HTTP/1.1 client.

    Target (bytes of the request's head) -> connect.py (judged address) -> http1.py (the answer)

Invariant: the status line decides, and `send` returns at most a second later; failing to read
the rest is never failing to deliver. Nothing is sent twice: a POST whose kept-alive connection
turns out to be dead is an attempt that failed. No redirect, proxy, cookie or decompression.
Where to change what: outcomes are decided in `outcomes.py`, addresses in `connect.py`.
"""

import asyncio
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from yarl import URL

from app.outbox.message import ErrorKind, ParkedReason, Response
from app.webhooks.connect import Connector, ForbiddenAddressError, Origin, ResolveError
from app.webhooks.http1 import Connection
from app.webhooks.outcomes import SendFailed
from app.webhooks.pool import IDLE_SECONDS, Pool

CHECKED_NAMES = 1000
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What would change how the request is read, or where it ends: written here or not at all.
_FRAMING = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "expect", "te", "upgrade",
})  # fmt: skip
_checked: set[str] = set()  # names seen before, of which there are few


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests of one endpoint go, in the form that is cheapest to use again."""

    origin: Origin
    head: bytes  # request line and Host
    total_seconds: float
    connect_seconds: float

    @classmethod
    def of(
        cls, url: str, *, total_seconds: float, connect_seconds: float, client: bytes | None = None
    ) -> "Target":
        """`total_seconds` covers everything, `connect_seconds` resolving, TCP and TLS of it.

        `client`: the certificate to show, with its key, as PEM.

        Raises ValueError for a URL that can't be called.
        """
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.port
        if parsed.scheme not in ("http", "https") or not host or not port:
            raise ValueError("not an http or https URL with a host")
        line = f"POST {parsed.raw_path_qs} HTTP/1.1\r\nhost: {parsed.host_port_subcomponent}\r\n"
        if not line.isascii() or sum(not c.isprintable() for c in line) != 4:
            raise ValueError("a URL is printable ASCII")
        origin = Origin(parsed.scheme == "https", host, port, client)
        return cls(origin, line.encode(), total_seconds, min(connect_seconds, total_seconds))


class Sender:
    """Sends requests over kept-alive connections; one per process. Opens nothing before `send`."""

    def __init__(
        self,
        *,
        allow_private: bool,
        tls: ssl.SSLContext | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._connector = Connector(allow_private=allow_private, tls=tls)
        self._pool = Pool(idle_seconds)

    async def send(self, target: Target, headers: Mapping[str, str], body: bytes) -> Response:
        """The receiver's answer; raises `SendFailed` when no status came, and nothing else."""
        until = asyncio.get_running_loop().time() + target.total_seconds
        request = _request(target, headers, body)
        connection = self._pool.take(target.origin) or await self._connect(target)
        try:
            response = await connection.exchange(request, until, target.total_seconds)
        except asyncio.CancelledError:
            connection.abort()
            raise
        self._pool.keep(target.origin, connection)
        return response

    async def close(self) -> None:
        """Close every connection."""
        self._pool.close()
        self._connector.close()
        await asyncio.sleep(0)  # an aborted transport closes its socket in the loop's next turn

    async def _connect(self, target: Target) -> Connection:
        try:
            return await self._connector.connect(target.origin, target.connect_seconds)
        except ForbiddenAddressError as error:
            park = ParkedReason.FORBIDDEN_TARGET
            raise SendFailed(ErrorKind.FORBIDDEN, str(error), park) from None
        except (ResolveError, OSError) as error:
            raise _no_connection(target, error) from None


def _no_connection(target: Target, error: ResolveError | OSError) -> SendFailed:
    """Told apart because each cause asks for another remedy."""
    origin = target.origin
    match error:
        case ResolveError():
            return SendFailed(ErrorKind.DNS, f"{origin.host} does not resolve: {error}")
        case TimeoutError():
            text = f"no connection to {origin} within {target.connect_seconds:g} s"
            return SendFailed(ErrorKind.TIMEOUT, text)
        case ssl.SSLError():
            why = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error
            return SendFailed(ErrorKind.TLS, f"TLS with {origin} failed: {why}")
        case _:
            return SendFailed(ErrorKind.CONNECT, f"no connection to {origin}: {_why(error)}")


def _why(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _request(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    """The request, whole. A header that could break out of its line is refused, not cleaned."""
    if not headers.keys() <= _checked:
        _check_names(headers)
    values = "".join(headers.values())
    if not (values.isascii() and values.isprintable()):
        raise _unsendable("a header value is not printable ASCII")
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (target.head, lines.encode(), len(body), body)


def _check_names(headers: Mapping[str, str]) -> None:
    for name in headers:
        if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
            raise _unsendable(f"the header {name!r} can't be given")
        if len(_checked) < CHECKED_NAMES:
            _checked.add(name)


def _unsendable(text: str) -> SendFailed:
    return SendFailed(ErrorKind.INTERNAL, text, ParkedReason.UNDELIVERABLE)
