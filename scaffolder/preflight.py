"""What must hold before the first byte is written; looks, never touches.

The order is the order in which a person can mend things: where to, then what with.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from scaffolder import git
from scaffolder.errors import BadInput, CannotProceed


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the project goes; `exists` is an empty folder that is filled, not replaced."""

    path: Path
    exists: bool

    @property
    def parent(self) -> Path:
        """Return the folder that must be writable."""
        return self.path if self.exists else self.path.parent

    @property
    def has_own_repository(self) -> bool:
        """Tell whether git already tracks the place where the project goes."""
        return git.inside_work_tree(self.parent)


def destination(target: str) -> Destination:
    """Return where `target` leads: the current folder for `.`, else a folder in it."""
    try:
        here = Path.cwd()
    except OSError:
        raise CannotProceed(
            "the current folder does not exist any more", hint="cd to a folder that exists"
        ) from None
    return Destination(here, exists=True) if target == "." else _below(here / target)


def _below(path: Path) -> Destination:
    # Not path.is_dir(): that raises for a name too long for the disk, which the name's rule is for.
    return Destination(path, exists=os.path.isdir(path))  # noqa: PTH112


def check_destination(place: Destination) -> None:
    """Raise unless the project can be written there."""
    path = place.path
    if not place.exists and os.path.lexists(path):
        raise BadInput(
            f"`{path}` is in the way: it is not a folder, and a project needs one of its own",
            hint="move it away, or choose another name",
        )
    if place.exists:
        _check_empty(path)
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise CannotProceed(
            f"folder `{place.parent}` is not writable for you, and the project goes into it",
            hint="cd to a folder of your own",
        )


def _check_empty(path: Path) -> None:
    try:
        entries = sorted(entry.name for entry in path.iterdir() if entry.name != ".git")
    except OSError as error:
        raise CannotProceed(
            f"folder `{path}` cannot be read: {error.strerror}", hint="choose another name"
        ) from None
    if entries:
        raise BadInput(
            f"folder `{path}` is not empty (it holds `{entries[0]}`), "
            "and a new project never writes over files",
            hint="choose another name, or empty the folder",
        )


def check_git(place: Destination, *, wanted: bool) -> None:
    """Raise if a repository is wanted and there is no git to make it."""
    if wanted and not place.has_own_repository and not git.available():
        raise CannotProceed(
            "`git` is not on PATH, and a new project starts with a first commit",
            hint="install git, or add --no-git",
        )
