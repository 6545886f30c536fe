"""One relay for each SQLite file: whoever serves or relays holds a lock beside it.

Invariant: the lock dies with its process, so there is never one to clean up by hand; the file
`<database>.lock` stays and means nothing by itself. PostgreSQL needs no such lock: there the claims
keep any number of relays apart.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.config import Settings
from app.db.engine import sqlite_path
from app.errors import AppError


class DatabaseHeld(AppError):
    """Another process serves or relays on this SQLite file."""

    exit_code = 2


def lock_path(settings: Settings) -> Path | None:
    """The lock file; None where no lock is needed."""
    path = sqlite_path(settings.database_url) if settings.is_sqlite else None
    return None if path is None else path.with_name(f"{path.name}.lock")


@contextmanager
def sole_relay(settings: Settings, purpose: str) -> Iterator[None]:
    """Hold the lock for the block. Raises `DatabaseHeld` at once if another process has it."""
    path = lock_path(settings)
    if path is None:
        yield
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _lock(descriptor):
            holder = os.read(descriptor, 200).decode(errors="replace").strip()
            raise DatabaseHeld(
                f"{path.with_suffix('')} is held by {holder or 'another process'}: "
                "on SQLite one process serves and relays",
                hint="stop it first, or set APP_DATABASE_URL to PostgreSQL for several processes",
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{purpose} (process {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(descriptor)


if sys.platform == "win32":

    def _lock(descriptor: int) -> bool:
        return True  # there are no advisory locks; the token fence still keeps relays apart

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
