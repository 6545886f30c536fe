"""From a name to an open connection. The only module that makes a socket to a receiver.

Invariant: a socket is connected to an address that has just been judged (`addresses.py`), never to
a name: a name is resolved once, every address it has is judged, and only those are connected to, so
it can't point elsewhere between the check and the connect. The certificate is checked for the name.
"""

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from app.webhooks.addresses import refused
from app.webhooks.client_certificate import client_context
from app.webhooks.http1 import Connection
from app.webhooks.lookups import AddressInfo, Lookups

CONTEXT_THREADS = 2  # not those of lookups: a context must not wait behind names that are dead
KEPT_CONTEXTS = 200


class ForbiddenAddressError(Exception):
    """A target is at an address that must not be called; no socket was made."""


class ResolveError(Exception):
    """A name has no address, or none could be found out."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a connection leads; requests to equal origins may share one."""

    secure: bool
    host: str
    port: int
    client: bytes | None = field(default=None, repr=False)  # PEM of the certificate to show

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def judge(host: str, address: str, *, allow_private: bool) -> None:
    """Raise `ForbiddenAddressError` naming the rule that forbids `address`."""
    rule = refused(address, allow_private=allow_private)
    if rule is not None:
        place = host if host == address else f"{host} resolves to {address}, which"
        raise ForbiddenAddressError(f"{place} is a forbidden target ({rule})")


def guarded_socket(info: AddressInfo, *, allow_private: bool) -> socket.socket:
    """A socket for an address that may be called."""
    family, kind, protocol, _, address = info
    judge(address[0], address[0], allow_private=allow_private)
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Connector:
    """Opens connections. Reads no proxy from the environment."""

    def __init__(self, *, allow_private: bool, tls: ssl.SSLContext | None = None) -> None:
        self._allow_private = allow_private
        self._tls = tls
        self._clients: dict[bytes, ssl.SSLContext] = {}  # by the certificate they show
        self._threads = ThreadPoolExecutor(CONTEXT_THREADS, thread_name_prefix="tls")
        self._lookups = Lookups()

    async def connect(self, origin: Origin, seconds: float) -> Connection:
        """A connection to the first address that answers, in the resolver's order.

        Raises TimeoutError, `ForbiddenAddressError`, `ResolveError`, or OSError (TLS included).
        """
        deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout_at(deadline):
            addresses = await self.resolve(origin)
            for *_, address in addresses:
                judge(origin.host, str(address[0]), allow_private=self._allow_private)
            for position, info in enumerate(addresses, 1):
                left = deadline - asyncio.get_running_loop().time()
                share = left / (len(addresses) - position + 1)  # a silent one leaves time to others
                try:
                    async with asyncio.timeout(share):
                        return await self._open(origin, info)
                except OSError:  # TimeoutError is one
                    if position == len(addresses):
                        raise
        raise ResolveError("it has no address")

    async def resolve(self, origin: Origin) -> list[AddressInfo]:
        """All addresses of a name; one lookup at a time for each, shared by all who wait for it."""
        found = await self._lookups.find(origin.host, origin.port)
        match found:
            case UnicodeError():
                raise ResolveError(f"not a host name: {found}")
            case OSError():
                raise ResolveError(found.strerror or str(found))
            case Exception():
                raise found
            case _:
                return found

    async def _open(self, origin: Origin, info: AddressInfo) -> Connection:
        loop = asyncio.get_running_loop()
        context = await self._context(origin) if origin.secure else None
        plain = guarded_socket(info, allow_private=self._allow_private)
        try:
            await loop.sock_connect(plain, info[4])
            raw, connection = await loop.create_connection(
                lambda: Connection(str(origin), plain), sock=plain
            )
        except BaseException:
            plain.close()
            raise
        if context is not None:
            try:
                if raw.is_closing():  # it spoke first, and `connection` has hung up
                    raise ssl.SSLError("not TLS")
                name = origin.host.rstrip(".")
                secure = await loop.start_tls(raw, connection, context, server_hostname=name)
                connection.secured(secure)
            except BaseException:
                raw.abort()
                raise
        return connection

    async def _context(self, origin: Origin) -> ssl.SSLContext:
        """Made when first needed, in a thread: reading the authorities takes many milliseconds."""
        loop = asyncio.get_running_loop()
        if origin.client is not None:
            if len(self._clients) >= KEPT_CONTEXTS:
                self._clients.clear()
            if origin.client not in self._clients:
                made = await loop.run_in_executor(self._threads, client_context, origin.client)
                self._clients[origin.client] = made
            return self._clients[origin.client]
        if self._tls is None:
            self._tls = await loop.run_in_executor(self._threads, ssl.create_default_context)
        return self._tls

    def close(self) -> None:
        """Let the threads go; a lookup under way ends by itself."""
        self._lookups.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
