"""How fast messages are done, and how many may therefore wait in memory."""

AHEAD_SECONDS = 0.05  # how much work may wait in memory
WINDOW_SECONDS = 0.005  # over which a speed is measured


class Speed:
    """Messages a second, lately: rises at once, falls by half per window.

    `done` is counted up by whoever has done one; a method for that would be called per message.
    """

    __slots__ = ("_since", "done", "rate")

    def __init__(self, now: float) -> None:
        self.rate = 0.0
        self.done = 0
        self._since = now

    def ahead(self, now: float, most: int) -> int:
        """How many may wait in memory."""
        elapsed = now - self._since
        if elapsed >= WINDOW_SECONDS:
            self.rate = max(self.done / elapsed, self.rate / 2)
            self.done, self._since = 0, now
        return min(most, int(self.rate * AHEAD_SECONDS))
