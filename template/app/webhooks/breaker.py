"""When an endpoint has failed so often that trying on only costs: the circuit breaker's window.

    closed --bad share of the window--> open --a period--> one probe --good--> closed
                                          ^------------------ bad ------'

Pure: one process counts its own calls here. That the breaker is open is in the database, written
when it changes (`health.py`), so all relays keep it. Where to change what: the constants below.
"""

WINDOW_SECONDS = 60.0
LEAST_CALLS = 10  # fewer prove nothing
FAILURE_SHARE = 0.5
SLOW_SHARE = 0.9
SLOW_PART = 0.8  # of the endpoint's timeout: a call that took longer is a slow one


class Window:
    """Calls of the last minute or less, in two halves."""

    __slots__ = ("_last", "_now", "_since")

    def __init__(self) -> None:
        self.clear(0.0)

    def clear(self, now: float) -> None:
        """Begin anew."""
        self._now, self._last = [0, 0, 0], [0, 0, 0]
        self._since = now

    def add(self, now: float, *, failed: bool, slow: bool) -> None:
        """One call has ended."""
        elapsed = now - self._since
        if elapsed >= WINDOW_SECONDS / 2:
            self._last = self._now if elapsed < WINDOW_SECONDS else [0, 0, 0]
            self._now, self._since = [0, 0, 0], now
        counts = self._now
        counts[0] += 1
        if failed:
            counts[1] += 1
        if slow:
            counts[2] += 1

    @property
    def is_bad(self) -> bool:
        """Whether it should open."""
        calls, failed, slow = (a + b for a, b in zip(self._now, self._last, strict=True))
        if calls < LEAST_CALLS:
            return False
        return failed >= FAILURE_SHARE * calls or slow >= SLOW_SHARE * calls
