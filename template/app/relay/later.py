"""What will be due, or may be asked again, at a known time: destinations by monotonic time.

Invariant: every due time is kept, for each may be another message's. Of the times at which a
destination's own limit lets more through only the first is: publishers wake it again and again.
"""

import heapq

LATE_SECONDS = 0.002  # look this much after a due time, whose fraction the database may round


class Later:
    """Destinations to be woken."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._again: dict[str, float] = {}

    def add(self, moment: float, destination: str) -> None:
        """Something is due there then."""
        heapq.heappush(self._heap, (moment + LATE_SECONDS, destination))

    def again(self, moment: float, destination: str) -> bool:
        """Ask it again then; False if it will be asked no later anyway."""
        if self._again.get(destination, float("inf")) <= moment:
            return False
        self._again[destination] = moment
        heapq.heappush(self._heap, (moment, destination))
        return True

    def due(self, now: float) -> list[str]:
        """Whose time has come."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            moment, destination = heapq.heappop(self._heap)
            found.append(destination)
            if self._again.get(destination) == moment:
                del self._again[destination]
        return found

    @property
    def next(self) -> float | None:
        """When the next one is to be woken."""
        return self._heap[0][0] if self._heap else None
