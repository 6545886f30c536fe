"""The relay's half of the outbox: claim, settle, extend, release.

    claim    due rows, some of each destination; attempt spent, token and lease written
    settle   the outcome, the next state and the attempt's log line, in one transaction
    extend   the lease of everything still held
    release  claims that were never started; the attempt is given back

Invariant: every write after a claim is guarded by (id, token), never by the lease, and answers
which rows it wrote. The others have been taken over by another claim, and nothing is written for
them. `now` is the database's clock unless a test passes its own. The statements are in
`statements_postgresql.py` and `statements_sqlite.py`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from msgspec import Struct

from app.db.engine import Database
from app.outbox.message import Claim, Result
from app.outbox.policy import Transition

if TYPE_CHECKING:
    from app.outbox.ordered import Picked


class Wanted(Struct, frozen=True):
    """How many messages the relay has room for, of one destination."""

    destination: str
    slots: int
    floor: datetime | None = None  # look only at rows due since; see `Claimed.floors`


class Reclaimed(Struct, frozen=True):
    """A claim whose lease ran out; its attempt is logged as lost. Parked: `crashed`."""

    message_id: UUID
    destination: str
    attempt: int
    parked: bool
    event_id: UUID
    type: str
    tenant: str


class Claimed(Struct, frozen=True):
    """What a claim statement took. `floors`: the latest due time taken of each destination.

    `passed`: the policy of each that goes although a lower sequence of its key is open.
    `unfinished`: destinations that have more ordering keys than one look takes in.
    """

    claims: list[Claim]
    reclaimed: list[Reclaimed]
    floors: dict[str, datetime]
    passed: tuple[str, ...] = ()
    unfinished: frozenset[str] = frozenset()


class Settlement(Struct, frozen=True):
    """What an attempt came to, and the transition that the policy decided."""

    result: Result
    transition: Transition


class Due(Struct, frozen=True):
    """When the first message of a destination is due, and whose that is, if the scan has seen it.

    No destination: it stands for the suspects.
    """

    destination: str | None
    in_seconds: float
    tenant: str | None = None


class Backend(Protocol):
    """What each database does in its own way."""

    async def claim(
        self, wanted: Sequence[Wanted], limit: int, now: datetime | None
    ) -> Claimed: ...
    async def claim_ordered(
        self,
        wanted: Sequence[Wanted],
        after: Sequence[str],
        probes: int,
        limit: int,
        now: datetime | None,
    ) -> "tuple[Claimed, list[Picked]]": ...
    async def ordered_destinations(self) -> list[str]: ...
    async def claim_lone(
        self, now: datetime | None, again: bool | None, busy: Sequence[str]
    ) -> Claimed: ...
    async def set_alone(self, claim: Claim, alone: bool) -> bool: ...
    async def settle(self, batch: Sequence[Settlement], now: datetime | None) -> set[UUID]: ...
    async def extend(self, claims: Sequence[Claim], now: datetime | None) -> set[UUID]: ...
    async def release(self, claims: Sequence[Claim]) -> set[UUID]: ...
    async def settled_before(self, claims: Sequence[Claim]) -> set[UUID]: ...
    async def due(self, now: datetime | None) -> list[Due]: ...
    async def warm(self) -> None: ...
    async def close(self) -> None: ...


class Store:
    """The relay's half; one per relay."""

    def __init__(self, database: Database) -> None:
        # Imported late: they import this module for its types.
        from app.outbox.ordered import TwoLanes

        self._backend = _backend(database)
        self._lanes = TwoLanes(self._backend)

    async def claim(
        self, wanted: Sequence[Wanted], now: datetime | None = None, limit: int | None = None
    ) -> Claimed:
        """Take due messages, at most `slots` of each destination and `limit` in all.

        The first destinations come first when the limit cuts. A live lease is never taken.
        """
        if not wanted:
            return Claimed([], [], {})
        most = sum(each.slots for each in wanted) if limit is None else limit
        return await self._lanes.claim(wanted, most, now)

    async def claim_lone(
        self, now: datetime | None = None, again: bool | None = None, busy: Sequence[str] = ()
    ) -> Claimed:
        """Take one message of those whose earlier claim was lost, of no destination in `busy`.

        `again`: only one that was lost more than once (True), or once (False).
        """
        return await self._backend.claim_lone(now, again, busy)

    async def set_alone(self, claim: Claim, *, alone: bool) -> bool:
        """Note whether the relay does nothing beside this claim: only then does a loss count
        towards `crashed`. False: the claim has been taken over.
        """
        return await self._backend.set_alone(claim, alone)

    async def settle(self, batch: Sequence[Settlement], now: datetime | None = None) -> set[UUID]:
        """Carry out the transitions; the ids that were written, the rest is lost."""
        return await self._backend.settle(batch, now) if batch else set()

    async def extend(self, claims: Sequence[Claim], now: datetime | None = None) -> set[UUID]:
        """A new lease for each claim that still holds; their ids."""
        return await self._backend.extend(claims, now) if claims else set()

    async def release(self, claims: Sequence[Claim]) -> set[UUID]:
        """Give back claims that were never started, and their attempts."""
        return await self._backend.release(claims) if claims else set()

    async def settled_before(self, claims: Sequence[Claim]) -> set[UUID]:
        """Which of these a settle has written whose answer was lost with the connection."""
        return await self._backend.settled_before(claims) if claims else set()

    async def due(self, now: datetime | None = None) -> list[Due]:
        """Each destination that owes something, and when; one that orders: perhaps now."""
        due = {one.destination: one for one in await self._backend.due(now)}
        ordered = await self._backend.ordered_destinations()
        self._lanes.saw(ordered)
        for name in ordered:
            one = due.get(name)
            if one is None or one.in_seconds > 0:
                due[name] = Due(name, 0.0, one.tenant if one is not None else None)
        return list(due.values())

    async def warm(self) -> None:
        """Open the connections and have plans made: the first messages don't wait for that."""
        await self._backend.warm()

    async def close(self) -> None:
        """Close the connections."""
        await self._backend.close()


def _backend(database: Database) -> Backend:
    if database.is_sqlite:
        from app.outbox.store_sqlite import SqliteBackend

        return SqliteBackend(database)
    from app.outbox.store_postgresql import PostgresqlBackend

    return PostgresqlBackend(database)
