"""More senders while receivers are slow; why, see `slots.py`.

What has been out for `SLOW_SECONDS` no longer counts, and there are as many senders more.
Invariant: the limit of each endpoint stays what it is.
"""

import asyncio
import time

from app.relay.lanes import Lanes
from app.relay.sending import Loop, Sending, cancel

SLOW_SECONDS = 0.1
LOOK_SECONDS = 0.05


class Stretch:
    """Counts slow requests and has as many senders more."""

    def __init__(self, lanes: Lanes, sending: Sending) -> None:
        self._lanes, self._sending = lanes, sending

    async def run(self) -> None:
        """Until cancelled; then the additional senders are too."""
        more: list[Loop] = []
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                before = time.monotonic() - SLOW_SECONDS
                self._lanes.stretch(self._sending.out_since(before), before)
                for ended in (sender for sender in more if sender.done()):
                    ended.result()  # a fault in this program ends the relay, not one sender
                more = [sender for sender in more if not sender.done()]
                while len(more) < self._lanes.slots.stretched:
                    more.append(asyncio.create_task(self._sending.run(self._needed)))
        finally:
            await cancel(more)

    def _needed(self) -> bool:
        if self._lanes.slots.stretched > 0:
            return True
        self._lanes.pass_on()
        return False
