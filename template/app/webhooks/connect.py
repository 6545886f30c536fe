"""The guard at connect: no socket is made for an address that has not been judged just before.

Invariant: a name is resolved once, every address it has is judged, and only those are connected
to, so it can't point elsewhere between the check and the connect. aiohttp does not ask its resolver
about literal addresses; `guarded_socket` judges those, and everything else once more.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from app.webhooks.addresses import refused

# A name whose server does not answer holds a thread for seconds. These are not the threads of the
# event loop's default pool, so one tenant's dead names stop nothing else.
RESOLVER_THREADS = 32

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]


class ForbiddenAddressError(Exception):
    """A target is at an address that must not be called; no socket was made."""


def judge(host: str, address: str, *, allow_private: bool) -> None:
    """Raise `ForbiddenAddressError` naming the rule that forbids `address`."""
    rule = refused(address, allow_private=allow_private)
    if rule is not None:
        place = host if host == address else f"{host} resolves to {address}, which"
        raise ForbiddenAddressError(f"{place} is a forbidden target ({rule})")


def guarded_socket(info: AddressInfo, *, allow_private: bool) -> socket.socket:
    """A socket for an address that may be called: aiohttp's `socket_factory`."""
    family, kind, protocol, _, address = info
    judge(address[0], address[0], allow_private=allow_private)
    return socket.socket(family, kind, protocol)


class GuardedResolver(AbstractResolver):
    """The system's resolver; refuses a name if any of its addresses is forbidden."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="resolve")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """All addresses of `host`. Raises OSError, or `ForbiddenAddressError`."""
        lookup = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        except UnicodeError as error:
            raise OSError(f"not a host name: {error}") from None
        if not found:
            raise OSError("it has no address")
        for *_, address in found:
            judge(host, str(address[0]), allow_private=self._allow_private)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Let the threads go; a lookup under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
