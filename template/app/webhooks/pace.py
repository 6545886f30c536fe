"""How fast an endpoint may be sent to: its own rate limit, a slow-down that its answers ask for.

    429, 502, 504   half as fast as lately, once for all that was under way at that moment
    2xx             as fast as before

Pure; times are monotonic. Invariant: in no stretch of time are more requests started than the rate
allows for it, and a tenth of a second's worth.
"""

BURST_SECONDS = 0.1
SLOWEST = 0.1  # requests a second
LEAST_PAUSE_SECONDS = 0.02
ONE = 1.0 - 1e-6  # a token, whatever the fractions add up to


class Pace:
    """A token bucket, and how fast it was emptied lately."""

    __slots__ = ("_at", "_counted", "_recent", "_since", "_slowed_at", "_tokens", "slowed")

    def __init__(self) -> None:
        self.slowed: float | None = None  # requests a second
        self._slowed_at = self._at = self._since = 0.0
        self._tokens = 1.0
        self._counted = self._recent = 0.0

    def rate(self, limit: float | None) -> float | None:
        """Requests a second at present; None: as many as there are."""
        if limit is None or self.slowed is None:
            return self.slowed if limit is None else limit
        return min(limit, self.slowed)

    def starts(self, now: float, limit: float | None) -> tuple[int | None, float]:
        """How many may be started now, and when to ask again; None: no limit."""
        rate = self.rate(limit)
        if rate is None:
            return None, 0.0
        self._fill(now, rate)
        missing = (max(1.0, rate * BURST_SECONDS / 2) - self._tokens) / rate  # some at once
        return int(self._tokens + 1.0 - ONE), max(LEAST_PAUSE_SECONDS, missing)

    def start(self, now: float, limit: float | None) -> float:
        """Start one: 0 if it may, else how long to wait."""
        if limit is not None or self.slowed is not None:
            rate = self.rate(limit) or SLOWEST
            self._fill(now, rate)
            if self._tokens < ONE:
                return max(LEAST_PAUSE_SECONDS, (1.0 - self._tokens) / rate)
            self._tokens -= 1.0
        if now - self._since >= 1.0:
            self._recent = self._counted / (now - self._since)
            self._counted, self._since = 0.0, now
        self._counted += 1.0
        return 0.0

    def _fill(self, now: float, rate: float) -> None:
        most = max(1.0, rate * BURST_SECONDS)
        self._tokens = min(most, self._tokens + max(0.0, now - self._at) * rate)
        self._at = now

    def slow_down(self, now: float, started: float, limit: float | None) -> bool:
        """Half as fast; False for a request that began before the last slow-down."""
        if started < self._slowed_at:
            return False
        lately = max(self._recent, self._counted / max(1.0, now - self._since))
        rate = self.rate(limit)
        self.slowed = max(SLOWEST, (lately if rate is None else min(rate, lately)) / 2)
        self._slowed_at = self._at = now
        self._tokens = 0.0
        return True

    def speed_up(self, started: float) -> None:
        """A good answer to a request that began after the last slow-down."""
        if self.slowed is not None and started >= self._slowed_at:
            self.slowed = None
