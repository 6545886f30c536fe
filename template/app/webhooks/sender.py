"""One POST to a receiver over aiohttp. The only module that sends to the network.

Invariant: `send` returns as soon as the header block is in; the body is read only to show it, up to
a cap, for a short while, and failing to read it is never failing to deliver. Nothing is sent twice:
a POST whose kept-alive connection turns out to be dead is an attempt that failed. No redirect, no
proxy of the environment, no cookie, no decompression. Where to change what: outcomes are decided in
`outcomes.py`, addresses in `connect.py`.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import aiohttp
from yarl import URL

from app.outbox.message import ErrorKind, ParkedReason, Response
from app.webhooks.connect import ForbiddenAddressError, GuardedResolver, guarded_socket
from app.webhooks.outcomes import SendFailed

SUCCESS_BODY_BYTES = 2 * 1024
FAILURE_BODY_BYTES = 10 * 1024
HEAD_BYTES = 8 * 1024
BODY_SECONDS = 1.0  # the status is known by then: a body may not hold the slot for long
IDLE_SECONDS = 4.0  # common servers hang up after 5: not to write into a closing connection


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests of one endpoint go, in the form that is cheapest to use again."""

    url: URL
    timeout: aiohttp.ClientTimeout

    @classmethod
    def of(cls, url: str, *, total_seconds: float, connect_seconds: float) -> "Target":
        """`total_seconds` covers everything, `connect_seconds` resolving, TCP and TLS of it."""
        connect = min(connect_seconds, total_seconds)
        timeout = aiohttp.ClientTimeout(total=total_seconds, connect=connect)
        return cls(URL(url), timeout)

    @property
    def place(self) -> str:
        """Host and port, for messages; never the path or the query, which may hold a secret."""
        return f"{self.url.raw_host}:{self.url.port}"


class Sender:
    """Sends requests over kept-alive connections; one per process. Opens nothing before `send`."""

    def __init__(self, *, allow_private: bool, tls: ssl.SSLContext | None = None) -> None:
        self._allow_private = allow_private
        self._tls = tls
        self._resolver: GuardedResolver | None = None
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        # No limit here: the relay limits what is in flight for an endpoint, and endpoints of
        # different tenants may share a host without waiting for each other.
        self._resolver = GuardedResolver(allow_private=self._allow_private)
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            socket_factory=partial(guarded_socket, allow_private=self._allow_private),
            limit=0,
            keepalive_timeout=IDLE_SECONDS,
            ssl=self._tls or True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            trust_env=False,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("user-agent", "accept", "accept-encoding"),
        )

    async def send(self, target: Target, headers: Mapping[str, str], body: bytes) -> Response:
        """The receiver's answer; raises `SendFailed` when no status came, and nothing else."""
        session = self._session
        if session is None:
            session = self._session = self._open()
        try:
            response = await session.post(
                target.url,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=target.timeout,
            )
        except ForbiddenAddressError as error:
            park = ParkedReason.FORBIDDEN_TARGET
            raise SendFailed(ErrorKind.FORBIDDEN, str(error), park) from None
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise _failure(target, error) from None
        cap = SUCCESS_BODY_BYTES if response.status < 300 else FAILURE_BODY_BYTES
        return Response(response.status, _head(response), await _body(response, cap))

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._resolver is not None:
            await self._resolver.close()


def _head(response: aiohttp.ClientResponse) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % pair for pair in response.raw_headers)
    return lines if len(lines) <= HEAD_BYTES else lines[: lines.rfind(b"\r\n", 0, HEAD_BYTES) + 2]


async def _body(response: aiohttp.ClientResponse, cap: int) -> bytes:
    """The first bytes of the body; the connection is kept only if that was all of it."""
    content = response.content
    parts: list[bytes] = []
    size = 0
    try:
        if content.is_eof():  # it came along with the header block, as short bodies do
            return content.read_nowait()[:cap]
        async with asyncio.timeout(BODY_SECONDS):
            while size <= cap and not content.at_eof():
                parts.append(await content.read(cap + 1 - size))
                size += len(parts[-1])
    except (aiohttp.ClientError, OSError):  # TimeoutError is an OSError
        pass
    finally:
        if not content.at_eof():
            response.close()
    return b"".join(parts)[:cap]


def _failure(target: Target, error: Exception) -> SendFailed:
    """Why no status came, told apart because each asks for another remedy."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            text = f"no connection to {target.place} within {target.timeout.connect:g} s"
            return SendFailed(ErrorKind.TIMEOUT, text)
        case TimeoutError():
            text = f"no answer from {target.place} within {target.timeout.total:g} s"
            return SendFailed(ErrorKind.TIMEOUT, text)
        case aiohttp.InvalidURL():
            text = "the endpoint's URL can't be called"
            return SendFailed(ErrorKind.INTERNAL, text, ParkedReason.UNDELIVERABLE)
        case aiohttp.ClientConnectorDNSError():
            return SendFailed(
                ErrorKind.DNS, f"{target.url.raw_host} does not resolve: {_why(error)}"
            )
        case aiohttp.ClientSSLError():
            return SendFailed(ErrorKind.TLS, f"TLS with {target.place} failed: {_why(error)}")
        case aiohttp.ClientConnectorError():
            return SendFailed(ErrorKind.CONNECT, f"no connection to {target.place}: {_why(error)}")
        case aiohttp.ClientResponseError(message=message):
            return SendFailed(ErrorKind.PROTOCOL, f"the answer is not HTTP: {message:.200}")
        case _:
            text = f"{target.place} closed the connection without an answer"
            return SendFailed(ErrorKind.RESET, text)


def _why(error: aiohttp.ClientError) -> str:
    """The operating system's or the TLS library's own words."""
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    number = inner.errno if isinstance(inner, OSError) else None
    if number is not None and number > 0 and not isinstance(inner, ssl.SSLError):
        return os.strerror(number)
    return str(getattr(inner, "strerror", None) or inner)
