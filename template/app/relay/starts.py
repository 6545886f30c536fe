"""Which destinations may start a message now, and the senders that wait for one.

Owners take turns, with one message each. Invariants: a lane is in one queue of its owner once,
while it has something waiting and is below its limit; an owner is in one queue once, while it has
such a lane and is below its share, or set aside above it. Who has nothing in flight goes first, and
among equals who came first, owners as well as lanes: of many idle ones none is overtaken for ever.
"""

import asyncio
from collections import deque
from time import monotonic

from app.relay.lane import Held, Lane
from app.relay.owner import Owner


class Starts:
    """Hands the next message to a sender."""

    def __init__(self, share: int) -> None:
        self._share = share  # of one owner, in flight
        self._quiet: deque[Owner] = deque()  # had nothing in flight when it came
        self._ready: deque[Owner] = deque()
        self._aside: dict[Owner, None] = {}  # could start one but for its share
        self._idle: list[asyncio.Future[None]] = []  # senders that wait for a message

    def offer(self, lane: Lane) -> None:
        """It may have become able to start one."""
        owner = lane.owner
        if not lane.ready and lane.waiting and lane.in_flight < lane.limit:
            lane.ready = True
            (owner.ready if lane.in_flight else owner.quiet).append(lane)
        if not owner.queued and (owner.ready or owner.quiet):
            self._queue(owner)

    def _queue(self, owner: Owner) -> None:
        if owner.in_flight < self._share:
            owner.queued = True
            if self._aside:
                self._aside.pop(owner, None)
            (self._ready if owner.in_flight else self._quiet).append(owner)
        else:
            self._aside[owner] = None

    def allow(self, share: int) -> None:
        """An owner may have so many in flight from now on."""
        grown, self._share = share - self._share, share
        if grown > 0 and self._aside:
            aside, self._aside = self._aside, {}
            for owner in aside:
                self._queue(owner)
            self.wake(grown * len(aside))

    @property
    def stuck(self) -> int:
        """How many wait because their owner has its share."""
        return sum(owner.held - owner.in_flight for owner in self._aside)

    async def take(self) -> Held:
        """The next message to send, waited for; it counts as in flight."""
        while not (self._quiet or self._ready):
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter
        owner = (self._quiet or self._ready).popleft()
        owner.queued = False
        lane = (owner.quiet or owner.ready).popleft()
        lane.ready = False
        lane.in_flight += 1
        owner.in_flight += 1
        held = lane.waiting.popleft()
        held.began = monotonic()
        self.offer(lane)
        return held

    def end(self, lane: Lane) -> None:
        """A message of it is sent or given up; whoever calls this takes next."""
        lane.in_flight -= 1
        lane.owner.in_flight -= 1
        self.offer(lane)

    def wake(self, count: int) -> None:
        """So many messages have come."""
        while count > 0 and self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def clear(self) -> None:
        """Nothing more is started."""
        for owner in (*self._quiet, *self._ready, *self._aside):
            for lane in (*owner.quiet, *owner.ready):
                lane.ready = False
            owner.quiet.clear()
            owner.ready.clear()
            owner.queued = False
        self._quiet.clear()
        self._ready.clear()
        self._aside.clear()
