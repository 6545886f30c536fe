"""Outcomes that wait to be written: what to write next, and whether to wait for more.

Invariant: what was taken and not written is put back, whole or in halves; nothing is forgotten.
"""

import asyncio

from msgspec import Struct

from app.relay.courier import Ended
from app.relay.lane import Held


class Finished(Struct, frozen=True):
    """An attempt that is over; times are monotonic."""

    held: Held
    ended: Ended
    started: float
    stopped: float


class Batches:
    """In the order in which they came, `most` at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[Finished] = []
        self._portions: list[list[Finished]] = []  # of batches with a row that can't be stored
        self.some, self.now = asyncio.Event(), asyncio.Event()  # now: more is not worth waiting for

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._portions))

    def add(self, finished: Finished) -> None:
        """To be written soon; at once in an ordered lane, where the next one waits for it."""
        self._waiting.append(finished)
        self.some.set()
        if len(self._waiting) >= self._most or finished.held.claim.sequence is not None:
            self.now.set()

    def hurry(self) -> None:
        """Nobody else will come to be written with what waits."""
        if self.some.is_set():
            self.now.set()

    def take(self) -> list[Finished]:
        """The next batch."""
        if self._portions:
            batch = self._portions.pop()
        else:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        self._tell()
        return batch

    def put_back(self, batch: list[Finished]) -> None:
        """It could not be written."""
        self._waiting += batch
        self._tell()

    def halve(self, batch: list[Finished]) -> None:
        """One row of it can't be stored: in halves it holds back ever fewer others."""
        middle = len(batch) // 2
        self._portions += [batch[:middle], batch[middle:]]
        self._tell()

    def _tell(self) -> None:
        for event, least in ((self.some, 1), (self.now, self._most)):
            if self._portions or len(self._waiting) >= least:
                event.set()
            else:
                event.clear()
