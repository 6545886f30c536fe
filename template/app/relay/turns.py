"""Whose turn it is to be asked for messages.

Two queues: destinations that were quiet when they were woken, and busy ones. They are served by
turns, so that a fresh message waits for no backlog and a backlog is not starved by fresh ones.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import zip_longest


class Turns:
    """Destinations that may have due messages, each once."""

    def __init__(self) -> None:
        self.quiet: OrderedDict[str, None] = OrderedDict()
        self._busy: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, destination: str) -> bool:
        return destination in self.quiet or destination in self._busy

    def __bool__(self) -> bool:
        return bool(self.quiet or self._busy)

    def __iter__(self) -> Iterator[str]:
        for quiet, busy in zip_longest(self.quiet, self._busy):
            if quiet is not None:
                yield quiet
            if busy is not None:
                yield busy

    def join(self, destination: str, *, quiet: bool) -> None:
        """At the end of its queue, if it is in none."""
        if destination not in self:
            (self.quiet if quiet else self._busy)[destination] = None

    def rejoin_first(self, destination: str) -> None:
        """It was asked and not served: before all others."""
        if destination not in self:
            self._busy[destination] = None
            self._busy.move_to_end(destination, last=False)

    def leave(self, destination: str) -> None:
        """It is being asked."""
        self.quiet.pop(destination, None)
        self._busy.pop(destination, None)
