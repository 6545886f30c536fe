"""Connections that wait for their next request, by the place they lead to.

Invariant: what is handed out has just been looked at: alive, in step, nothing unread. The one used
last goes first, so that those that are not needed grow old and are closed.
"""

import asyncio
from collections import deque

from app.webhooks.connect import Origin
from app.webhooks.http1 import Connection

IDLE_SECONDS = 4.0  # common servers hang up after 5: not to write into a closing connection


class Pool:
    """Kept-alive connections. Sets no limit: the relay limits what is in flight for an endpoint,
    and endpoints of different tenants may share a host without waiting for each other."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._kept: dict[Origin, deque[tuple[Connection, float]]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, origin: Origin) -> Connection | None:
        """The connection used last of those that are still good."""
        kept = self._kept.get(origin)
        while kept:
            connection, _ = kept.pop()
            if connection.is_usable():
                return connection
            connection.abort()
        return None

    def keep(self, origin: Origin, connection: Connection) -> None:
        """For the next request, if the connection is fit for one; else it is closed."""
        if not connection.in_step():
            connection.abort()
            return
        kept = self._kept.get(origin)
        if kept is None:
            kept = self._kept[origin] = deque()
        loop = asyncio.get_running_loop()
        kept.append((connection, loop.time()))
        if self._sweep is None:
            self._sweep = loop.call_later(self._idle_seconds, self._close_idle)

    def close(self) -> None:
        """Close all."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for kept in self._kept.values():
            for connection, _ in kept:
                connection.abort()
        self._kept.clear()

    def _close_idle(self) -> None:
        """Close what has rested for long; comes back as long as anything is kept."""
        loop, rested = asyncio.get_running_loop(), []
        for origin, kept in list(self._kept.items()):
            while kept and kept[0][1] + self._idle_seconds <= loop.time():
                kept.popleft()[0].abort()
            if kept:
                rested.append(kept[0][1])
            else:
                del self._kept[origin]
        again = min(rested) + self._idle_seconds if rested else None
        self._sweep = loop.call_at(again, self._close_idle) if again is not None else None
