"""Whose turn it is to be asked for messages.

Owners take turns, and so do the destinations of each. On both levels there are two queues: those
that had nothing in memory when they came, and the others. They are served by turns, so that a fresh
message waits for no backlog and a backlog is not starved by fresh ones.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TypeVar

from app.relay.owner import Owner

T = TypeVar("T")


class Turns:
    """Destinations that may have due messages, each once."""

    def __init__(self) -> None:
        self.owners: dict[str, Owner] = {}  # of each destination that is here
        self._fresh: OrderedDict[Owner, None] = OrderedDict()
        self._rest: OrderedDict[Owner, None] = OrderedDict()
        self._emptied: dict[Owner, None] = {}  # of the rest
        self.quiet = 0  # destinations that were when they came

    def __contains__(self, destination: str) -> bool:
        return destination in self.owners

    def __bool__(self) -> bool:
        return bool(self.owners)

    def emptied(self, owner: Owner) -> None:
        """Nothing of it is in memory any more."""
        if owner in self._rest:
            self._emptied[owner] = None

    def freshen(self) -> bool:
        """Owners that have nothing in memory any more go first; whether any such waits."""
        for owner in list(self._emptied):
            self.place(owner)
        return bool(self._fresh)

    def walk(self, may: Callable[[Owner], bool]) -> Iterator[tuple[str, Owner]]:
        """One destination of each owner in turn, as long as the owner may be asked."""
        going = deque[tuple[Owner, Iterator[str]]]()
        for owner in _by_turns(self._fresh, self._rest):
            if may(owner):
                names = _by_turns(owner.quiet_turns, owner.busy_turns)
                yield next(names), owner
                going.append((owner, names))
        while going:
            owner, names = going.popleft()
            name = next(names, None) if may(owner) else None
            if name is not None:
                yield name, owner
                going.append((owner, names))

    def join(self, destination: str, owner: Owner, *, quiet: bool) -> None:
        """At the end of its queue, if it is in none."""
        if destination in self.owners:
            return
        first = not owner.hungry
        self.owners[destination] = owner
        (owner.quiet_turns if quiet else owner.busy_turns)[destination] = None
        self.quiet += quiet
        if first:
            self.place(owner)

    def rejoin_first(self, destination: str, owner: Owner) -> None:
        """It was asked and not served: before all others."""
        if destination in self.owners:
            return
        self.join(destination, owner, quiet=False)
        owner.busy_turns.move_to_end(destination, last=False)
        (self._fresh if owner in self._fresh else self._rest).move_to_end(owner, last=False)

    def leave(self, destination: str) -> None:
        """It is being asked: the next turn is another owner's."""
        owner = self.owners.pop(destination, None)
        if owner is None:
            return
        if destination in owner.quiet_turns:
            del owner.quiet_turns[destination]
            self.quiet -= 1
        else:
            del owner.busy_turns[destination]
        self.place(owner)

    def move(self, destination: str, owner: Owner) -> None:
        """Its owner has become known."""
        if destination in self.owners:
            quiet = destination in self.owners[destination].quiet_turns
            self.leave(destination)
            self.join(destination, owner, quiet=quiet)

    def place(self, owner: Owner) -> None:
        """At the end of the owners' queue that is right for it now, if it has a turn to come."""
        self._emptied.pop(owner, None)
        self._fresh.pop(owner, None)
        self._rest.pop(owner, None)
        if owner.hungry:
            (self._fresh if owner.fresh else self._rest)[owner] = None


def _by_turns(some: Iterable[T], others: Iterable[T]) -> Iterator[T]:
    for one, other in zip_longest(some, others):
        if one is not None:
            yield one
        if other is not None:
            yield other
