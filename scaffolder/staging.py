"""Build beside the target, then put in place with one rename: a failure leaves nothing.

The staging folder is on the target's own file system. A new folder appears by one rename; an
empty folder that exists (`new .`) receives its entries one by one under `shield`.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scaffolder import interrupt
from scaffolder.errors import CannotProceed
from scaffolder.preflight import Destination


@contextmanager
def staging(place: Destination, *, in_system_folder: bool = False) -> Iterator[Path]:
    """Give a folder beside the target (in it, if it exists) that is gone afterwards.

    A dry run takes the system's folder for temporary files: nothing is to be put in place.
    """
    parent = None if in_system_folder else place.parent
    with interrupt.shield():
        try:
            box = Path(tempfile.mkdtemp(prefix=".scaffolder-", dir=parent))
        except OSError as error:
            raise CannotProceed(
                f"folder `{place.parent}` does not take a new folder: {error.strerror}",
                hint="cd to a folder of your own",
            ) from None
    try:
        interrupt.check()
        yield box
    finally:
        with interrupt.shield():
            shutil.rmtree(box, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Placed:
    """A project that was put in place, and can be taken back while it is nobody's yet."""

    place: Destination
    entries: tuple[Path, ...]

    def take_back(self, *extra: str) -> None:
        """Remove what was put there, and the named entries that came later."""
        with interrupt.shield():
            if not self.place.exists:
                shutil.rmtree(self.place.path, ignore_errors=True)
                return
            for entry in (*self.entries, *(self.place.path / name for name in extra)):
                _remove(entry)


def put_in_place(project: Path, place: Destination) -> Placed:
    """Move the finished project to its target; all of it or nothing."""
    interrupt.check()
    with interrupt.shield():
        try:
            return _move(project, place)
        except OSError as error:
            raise CannotProceed(
                f"the project could not be moved to `{place.path}`: {error.strerror}",
                hint="see that nothing else writes there, and run the command again",
            ) from None


def _move(project: Path, place: Destination) -> Placed:
    if not place.exists:
        project.rename(place.path)
        return Placed(place, ())
    placed = Placed(place, tuple(place.path / entry.name for entry in project.iterdir()))
    try:
        for entry in placed.entries:
            (project / entry.name).rename(entry)
    except OSError:
        placed.take_back()
        raise
    return placed


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
