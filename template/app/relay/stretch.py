"""More senders while receivers are slow.

A request that waits for its answer costs next to nothing, yet it holds a sender: a thousand slow
endpoints would hold all of them, and every other message would wait for a slow answer. So what has
been out for `SLOW_SECONDS` no longer counts, up to `MOST` times `relay_concurrency` in all.
Invariant: the limit of each endpoint stays what it is.
"""

import asyncio
import time

from app.relay.lanes import Lanes
from app.relay.sending import Loop, Sending, cancel

SLOW_SECONDS = 0.1
LOOK_SECONDS = 0.05
MOST = 8


class Stretch:
    """Counts slow requests and has as many senders more."""

    def __init__(self, lanes: Lanes, sending: Sending, senders: int) -> None:
        self._lanes, self._sending, self._most = lanes, sending, (MOST - 1) * senders

    async def run(self) -> None:
        """Until cancelled; then the additional senders are too."""
        more: list[Loop] = []
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                slow = min(self._sending.out_since(time.monotonic() - SLOW_SECONDS), self._most)
                if slow > self._lanes.stretched:
                    self._lanes.changed.set()  # there is room again
                self._lanes.stretched = slow
                for ended in (sender for sender in more if sender.done()):
                    ended.result()  # a fault in this program ends the relay, not one sender
                more = [sender for sender in more if not sender.done()]
                while len(more) < slow:
                    more.append(asyncio.create_task(self._sending.run(self._needed)))
        finally:
            await cancel(more)

    def _needed(self) -> bool:
        return self._lanes.stretched > 0
