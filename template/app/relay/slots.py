"""How many messages may be in flight: in all, and of one owner.

A request that waits for its answer costs next to nothing, yet it holds a sender: a thousand slow
endpoints would hold all of them, and every other message would wait for a slow answer. So slow
requests don't count, up to `MOST` times the concurrency in all. Of the rest one owner leaves an
eighth to others, and of all together too: a fresh message of another tenant finds a sender free.
Invariant: one destination may always have its own limit in flight.
"""

from app.outbox.deliverer import Room

MOST = 8
RESERVED = 8  # one in so many is not for an owner that has all others


class Slots:
    """Counts; `slow` are the slow requests, `stretched` the slots that they add."""

    def __init__(self, concurrency: int, limit: int) -> None:
        self._concurrency, self._limit = concurrency, limit
        self._most = (MOST - 1) * concurrency
        self._looked = float("-inf")
        self._count(0)

    def _count(self, slow: int) -> None:
        self.slow, self.stretched = slow, min(slow, self._most)
        self.all = self._concurrency + self.stretched
        left = self.all - self._concurrency // RESERVED
        self.share = max(self._limit, min(self._most, left))

    def one(self, room: Room) -> int:
        """How many of one destination, which lets through as much as `room`."""
        return self._limit if room.in_flight is None else min(self._limit, room.in_flight)

    def look(self, slow: int, began_before: float) -> bool:
        """So many requests that began before then are still out; whether that makes room."""
        before, self._looked = self.all, began_before
        self._count(slow)
        return self.all > before

    def ended(self, began: float) -> bool:
        """A request is over; whether it was a slow one, which gives no slot any more.

        Without this, as many as ended would be started in their place and count at once: after
        them there is no room until they are slow too.
        """
        if began > self._looked or not self.slow:
            return False
        self._count(self.slow - 1)
        return True
