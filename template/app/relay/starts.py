"""Which destinations may start a message now, and the senders that wait for one.

Invariant: a lane is in one queue once, while it has something waiting and is below its limit. A
destination with nothing in flight goes first, and among equals who came first: of many idle ones
none is overtaken for ever.
"""

import asyncio
from collections import deque

from app.relay.lane import Held, Lane


class Starts:
    """Hands the next message to a sender."""

    def __init__(self) -> None:
        self._quiet: deque[Lane] = deque()  # had nothing in flight when it came
        self._ready: deque[Lane] = deque()
        self._idle: list[asyncio.Future[None]] = []  # senders that wait for a message

    def offer(self, lane: Lane) -> None:
        """It may have become able to start one."""
        if lane.ready or not lane.waiting or lane.in_flight >= lane.limit:
            return
        lane.ready = True
        (self._ready if lane.in_flight else self._quiet).append(lane)

    async def take(self) -> Held:
        """The next message to send, waited for; it counts as in flight."""
        while not (self._quiet or self._ready):
            waiter = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter
        lane = (self._quiet or self._ready).popleft()
        lane.ready = False
        lane.in_flight += 1
        held = lane.waiting.popleft()
        self.offer(lane)
        return held

    def wake(self, count: int) -> None:
        """So many messages have come."""
        while count > 0 and self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def clear(self) -> None:
        """Nothing more is started."""
        for lane in (*self._quiet, *self._ready):
            lane.ready = False
        self._quiet.clear()
        self._ready.clear()
