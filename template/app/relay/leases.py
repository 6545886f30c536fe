"""The leases of everything this relay holds: waiting, in flight, or not yet settled.

Invariant: no request starts for a claim that another relay might take over before it ends, and a
claim that was taken over is never started. The clock for that is monotonic and starts before the
statement that wrote the lease was sent.
"""

import time
from collections.abc import Callable, Iterable

import structlog

from app.config import Settings
from app.outbox.store import Store
from app.relay.lane import Held

logger = structlog.get_logger("app.relay")


class Leases:
    """What is held, and until when it is safe to start."""

    def __init__(self, store: Store, settings: Settings, dropped: Callable[[], None]) -> None:
        self._store = store
        self._dropped = dropped
        self._longest_wait = settings.lease_seconds - settings.request_timeout_seconds
        self.beat_seconds = settings.lease_seconds / 3
        self._held: set[Held] = set()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, claims: Iterable[Held]) -> None:
        """From now on extended."""
        self._held.update(claims)

    def drop(self, claims: Iterable[Held]) -> None:
        """Settled, released or lost: no longer extended."""
        self._held.difference_update(claims)
        self._dropped()

    def may_start(self, held: Held) -> bool:
        """Whether a request that starts now ends before the lease does."""
        return not held.taken_over and time.monotonic() - held.leased_at <= self._longest_wait

    async def extend(self) -> None:
        """A new lease for everything held; what was taken over is marked."""
        held, before = list(self._held), time.monotonic()
        kept = await self._store.extend([each.claim for each in held])
        for each in held:
            if each.claim.message_id in kept:
                each.leased_at = before
            elif each in self._held:  # not settled meanwhile
                each.taken_over = True
                logger.warning("claim taken over", message_id=str(each.claim.message_id))
