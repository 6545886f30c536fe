"""The relay's two lanes: what is due, and what waits in line behind others of its ordering key.

Invariant: destinations that don't order cost nothing here; the others are asked in both lanes, one
or the other first by turns, so that neither starves the other. Which destinations order is known
from the scan for due messages: never forgotten, at worst asked in vain.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import structlog
from msgspec import Struct
from sqlalchemy import RowMapping

from app.outbox.statements_ordered import LEAST_PROBES, PROBES
from app.outbox.store import Backend, Claimed, Wanted

logger = structlog.get_logger("app.outbox")


class Picked(Struct, frozen=True):
    """A message that may go, or the mark of the last key looked at (`id` is None)."""

    destination: str
    policy: str
    ordering_key: str
    probes: int
    id: UUID | None
    passed: bool  # a lower sequence of its key is still open


def picked_from(destination: str, policy: str, row: RowMapping) -> Picked:
    """A row of SQLite."""
    message_id = None if row["id"] is None else UUID(row["id"])
    key, probes = row["ordering_key"], row["probes"]
    return Picked(destination, policy, key, probes, message_id, bool(row["passed"]))


class TwoLanes:
    """Claims from both."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ordering: set[str] = set()
        self._after: dict[str, str] = {}  # where a look ended before the last key
        self._again: set[str] = set()  # from the first key, once the last has been looked at
        self._in_order_first = False

    def saw(self, destinations: Iterable[str]) -> None:
        """These have messages in the ordered lane."""
        self._ordering.update(destinations)

    async def claim(self, wanted: Sequence[Wanted], limit: int, now: datetime | None) -> Claimed:
        """At most `slots` of each destination, from both lanes together."""
        if self._ordering.isdisjoint(each.destination for each in wanted):
            return await self._backend.claim(wanted, limit, now)
        lanes = [self._backend.claim, self._in_order]
        self._in_order_first = not self._in_order_first
        found = Claimed([], [], {})
        for lane in reversed(lanes) if self._in_order_first else lanes:
            rest = _rest(wanted, found)
            left = limit - len(found.claims) - len(found.reclaimed)
            if rest and left > 0:
                try:
                    found = _both(found, await lane(rest, left, now))
                except Exception as error:
                    if not found.claims:
                        raise
                    logger.warning("claim of one lane failed", error=repr(error)[:300])
        return found

    async def _in_order(
        self, wanted: Sequence[Wanted], limit: int, now: datetime | None
    ) -> Claimed:
        mine = [each for each in wanted if each.destination in self._ordering]
        if not mine:
            return Claimed([], [], {})
        after = [self._after.get(each.destination, "") for each in mine]
        probes = max(LEAST_PROBES, PROBES // len(mine))
        found, picked = await self._backend.claim_ordered(mine, after, probes, limit, now)
        return Claimed(
            found.claims,
            found.reclaimed,
            {},
            passed=_passed(found, picked),
            unfinished=self._remember(mine, picked, probes),
        )

    def _remember(
        self, wanted: Sequence[Wanted], picked: Sequence[Picked], probes: int
    ) -> frozenset[str]:
        """Where to go on next time; the destinations whose keys were not all looked at."""
        unfinished = set()
        for each in wanted:
            name = each.destination
            mine = [one for one in picked if one.destination == name]
            last = max(mine, key=lambda one: one.probes, default=None)
            full = len(mine) >= each.slots
            if last is not None and (full or last.probes == probes):
                self._after[name] = last.ordering_key
                self._again.update({name} if full else ())
                unfinished.add(name)
            elif self._after.pop(name, None) is not None and name in self._again:
                self._again.discard(name)
                unfinished.add(name)
        return frozenset(unfinished)


def _passed(found: Claimed, picked: Sequence[Picked]) -> tuple[str, ...]:
    taken = {claim.message_id for claim in found.claims}
    return tuple(one.policy for one in picked if one.passed and one.id in taken)


def _rest(wanted: Sequence[Wanted], found: Claimed) -> list[Wanted]:
    counts = Counter(claim.destination for claim in found.claims)
    counts.update(lost.destination for lost in found.reclaimed)
    rest = [(each, each.slots - counts[each.destination]) for each in wanted]
    return [Wanted(each.destination, slots, each.floor) for each, slots in rest if slots > 0]


def _both(one: Claimed, other: Claimed) -> Claimed:
    return Claimed(
        one.claims + other.claims,
        one.reclaimed + other.reclaimed,
        one.floors | other.floors,
        passed=one.passed + other.passed,
        unfinished=one.unfinished | other.unfinished,
    )
