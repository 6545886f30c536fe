"""Ctrl-C and SIGTERM: one KeyboardInterrupt at most, and none where the disk must stay whole.

A KeyboardInterrupt can be swallowed by a destructor or a library, and a second one could stop
the clean-up after the first. So the handler raises only while `exposed`, raises once, and
remembers the signal for `check`; inside `shield`, and before a command runs, it only remembers.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class _State:
    seen: bool = False
    raised: bool = False
    shields: int = 1


_state = _State()


def install() -> None:
    """Take over the signals that ask this process to stop."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def _handle(_number: int, _frame: FrameType | None) -> None:
    _state.seen = True
    if not _state.raised and not _state.shields:
        _state.raised = True
        raise KeyboardInterrupt


def seen() -> bool:
    """Tell whether a signal has arrived, whatever became of its exception."""
    return _state.seen


def check() -> None:
    """Raise KeyboardInterrupt if a signal has arrived, even one that was swallowed."""
    if _state.seen:
        _state.raised = True
        raise KeyboardInterrupt


@contextmanager
def exposed() -> Iterator[None]:
    """Run a block that a signal ends with KeyboardInterrupt."""
    _state.shields -= 1
    try:
        check()
        yield
    finally:
        _state.shields += 1


@contextmanager
def shield() -> Iterator[None]:
    """Run a block that no signal can tear apart; callers `check` before or after it."""
    _state.shields += 1
    try:
        yield
    finally:
        _state.shields -= 1


def close() -> None:
    """From here to the end of the process a signal is only remembered: the work is as good as done.

    Raising later would report a run as interrupted whose result is already in place.
    """
    check()
    _state.shields += 1
