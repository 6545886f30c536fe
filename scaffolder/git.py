"""The few things that a new project needs from git; merging lives elsewhere."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from scaffolder import process
from scaffolder.errors import CannotProceed

# Set by git for its hooks; they would send our commands to the outer repository.
_LEAKING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")


def available() -> bool:
    """Tell whether there is a git to run."""
    return shutil.which("git") is not None


def inside_work_tree(folder: Path) -> bool:
    """Tell whether `folder` or a folder above it is under version control.

    Looks for `.git` instead of asking git, which also answers "no" for a work tree of another
    owner, and a repository nested into that one by accident is hard to get rid of.
    """
    return any((above / ".git").exists() for above in (folder, *folder.parents))


def commit_all(folder: Path, message: str) -> None:
    """Make `folder` a repository with one commit of all that is not ignored.

    Hooks, signing and the user's own ignore file stay out of it: they serve written code.
    """
    _git(folder, "-c", "init.defaultBranch=main", "init", "--quiet")
    _git(folder, "-c", f"core.excludesFile={os.devnull}", "add", "--all")
    _git(
        folder,
        *identity(folder),
        *("-c", f"core.hooksPath={os.devnull}", "-c", "commit.gpgSign=false"),
        *("commit", "--quiet", "--no-verify", "--message", message),
    )


def identity(folder: Path) -> Sequence[str]:
    """Return the settings that name an author where git knows none."""
    settings: list[str] = []
    for key, variable, fallback in (
        ("user.name", "GIT_AUTHOR_NAME", "scaffolder"),
        ("user.email", "GIT_AUTHOR_EMAIL", "scaffolder@localhost"),
    ):
        known = process.run(["git", "config", "--get", key], cwd=folder, env=_environment())
        if not known.ok and not os.environ.get(variable):
            settings += ["-c", f"{key}={fallback}"]
    return settings


def _git(folder: Path, *arguments: str) -> None:
    finished = process.run(["git", *arguments], cwd=folder, env=_environment())
    if not finished.ok:
        lines = finished.output.strip().splitlines() or [f"exit code {finished.code}"]
        raise CannotProceed(
            f"git could not make the first commit: {lines[-1]}",
            hint="mend git, or leave it out with --no-git",
        )


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in _LEAKING}
