"""The door that every attempt passes, and that one attempt can close behind itself to be alone.

Only while a relay does nothing else is its end evidence against the one message it was sending.
Invariant: whoever holds the door closed lets it go after a bounded time, whatever happens.
"""

import asyncio
import time


class Gate:
    """How many attempts are under way, and whether another may begin."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._open, self._quiet = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._quiet.set()
        self._closed_at = 0.0

    async def enter(self) -> None:
        """Begin an attempt, as soon as the door is open."""
        while not self._open.is_set():
            await self._open.wait()
        self.in_flight += 1
        self._quiet.clear()

    def leave(self) -> None:
        """The attempt has ended."""
        self.in_flight -= 1
        if not self.in_flight:
            self._quiet.set()

    async def close(self, patience_seconds: float) -> bool:
        """Let nobody in any more; whether everybody was out in time."""
        self._open.clear()
        self._closed_at = time.monotonic()
        try:
            async with asyncio.timeout(patience_seconds):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True

    def open(self) -> float:
        """Let others in; how many seconds they had to wait."""
        self._open.set()
        return time.monotonic() - self._closed_at
