"""Looks at the work tree before it is touched: may the upgrade start, and is anything in its way?"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NoReturn

from scaffolder.errors import BadInput
from scaffolder.project import ANSWERS_FILE
from scaffolder.upgrade.carrying import read_origin
from scaffolder.upgrade.plumbing import shown, split
from scaffolder.upgrade.repository import Repository
from scaffolder.upgrade.verdicts import Change

UNDO = "git reset --merge"
OUTSIDE = "is outside the sparse checkout"
_UNFINISHED = {
    "MERGE_HEAD": ("a merge", "git merge --continue, or git merge --abort"),
    "CHERRY_PICK_HEAD": ("a cherry-pick", "git cherry-pick --continue, or --abort"),
    "REVERT_HEAD": ("a revert", "git revert --continue, or --abort"),
    "rebase-merge": ("a rebase", "git rebase --continue, or --abort"),
    "rebase-apply": ("a rebase", "git rebase --continue, or --abort"),
}


@dataclass(frozen=True, slots=True)
class State:
    """What git says of the tracked files."""

    staged: tuple[str, ...]
    unmerged: tuple[str, ...]
    edited: frozenset[str]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A file that the upgrade would have to overwrite, and no commit holds it."""

    path: str
    reason: str


def read_state(project: Repository) -> State:
    """Return what is staged, in conflict and edited, in the whole repository."""
    output = project.git.run(
        *("status", "--porcelain=v2", "-z", "--untracked-files=no", "--no-renames"),
        "--ignore-submodules=dirty",
    )
    staged, unmerged, edited = [], [], set()
    for line in split(output):
        kind, letters, *rest = line.split(" ", 10 if line[0] == "u" else 8)
        if kind == "u":
            unmerged.append(rest[-1])
        elif kind == "1":
            path = rest[-1]
            # `git add --intent-to-add` stages a name without content; the undo fails on it.
            if letters[0] != "." or letters == ".A":
                staged.append(path)
            if letters[1] != ".":
                edited.add(path)
    return State(tuple(staged), tuple(unmerged), frozenset(edited))


def check_ready(project: Repository, state: State) -> None:
    """Raise BadInput while something else is half done in the repository."""
    for name, (what, hint) in _UNFINISHED.items():
        if (project.git_dir / name).exists():
            raise BadInput(f"{what} is not finished here, and an upgrade is one too", hint=hint)
    if state.unmerged:
        raise BadInput(
            f"`{state.unmerged[0]}` still has a conflict, and an upgrade starts without any",
            hint=f"settle it and commit, or undo with: {UNDO}",
        )
    if state.staged:
        _refuse_staged(project, state.staged)
    if (project.git_dir / "index.lock").exists():
        raise BadInput(
            f"`{project.git_dir / 'index.lock'}` exists: git is at work in this repository",
            hint="wait for it to end; if no git runs any more, remove that file",
        )


def _refuse_staged(project: Repository, staged: tuple[str, ...]) -> NoReturn:
    upgraded = _staged_version(project) if project.prefix + ANSWERS_FILE in staged else None
    if upgraded is not None:
        # To unstage it would take the undo away: its files would be edits of the owner's then.
        raise BadInput(
            f"an upgrade to template {upgraded} is staged and not committed yet",
            hint=f"git commit, or undo it with: {UNDO}",
        )
    more = len(staged) - 1
    are, them = (f" and {more} more are", "them") if more else (" is", "that")
    raise BadInput(
        f"`{shown(staged[0])}`{are} staged, and the undo of an upgrade would drop {them}",
        hint="git commit, or git restore --staged . (unstaged edits may stay)",
    )


def _staged_version(project: Repository) -> str | None:
    """Return the template version of the staged answers, None when it is that of the commit."""
    name = f":{project.prefix}{ANSWERS_FILE}"
    staged = project.git.ended("cat-file", "blob", name, ok=(0, 128))
    try:
        version = read_origin(staged.stdout).version
        committed = read_origin(project.file(ANSWERS_FILE) or b"").version
    except BadInput:
        return None
    return None if version == committed else version


def obstacles(project: Repository, state: State, planned: Iterable[Change]) -> tuple[Obstacle, ...]:
    """Return every file that is in the way, so that all can be named at once."""
    planned = tuple(planned)
    removed = {each.path for each in planned if each.new is None and each.old is not None}
    hidden = _hidden(project)
    found = {}
    for change in planned:
        if change.old is not None:
            reason = _edit(project, state, change, hidden)
            if reason:
                found[change.path] = reason
        elif (place := _occupied(project, change.path, removed)) is not None:
            found[place] = f"is not tracked, and the template adds {change.path}"
    return tuple(Obstacle(path, reason) for path, reason in sorted(found.items()))


def _edit(project: Repository, state: State, change: Change, hidden: dict[str, bool]) -> str | None:
    path = project.prefix + change.path
    if path in state.edited:
        there = os.path.lexists(project.root / change.path)
        return "has an edit that is not committed" if there else "is deleted, and not committed"
    if path in hidden and not _same(project, change):
        there = os.path.lexists(project.root / change.path)
        outside = hidden[path] and not there
        return OUTSIDE if outside else "differs from the last commit, and git was told not to look"
    return None


def _hidden(project: Repository) -> dict[str, bool]:
    """Return the paths whose edits git does not show, and whether a sparse checkout may be why.

    They are marked assume-unchanged, or skip-worktree as those outside a sparse checkout are.
    """
    lines = split(project.git.run("ls-files", "-v", "-z"))
    found = {line[2:]: line[0] in "Ss" for line in lines if line[0].islower() or line[0] == "S"}
    if any(found.values()):
        sparse = project.git.ended("config", "--type=bool", "core.sparseCheckout", ok=(0, 1))
        if sparse.stdout.strip() != b"true":
            return dict.fromkeys(found, False)
    return found


def _same(project: Repository, change: Change) -> bool:
    path = project.root / change.path
    if change.old is None or path.is_symlink() or not path.is_file():
        return False
    with_filters = f"--path={project.prefix}{change.path}"
    stored = project.git.line("hash-object", with_filters, str(path))
    return stored == change.old.oid


def _occupied(project: Repository, path: str, removed: set[str]) -> str | None:
    """Return what stands where a new file goes: a file, a link, or something in a folder."""
    for part in [*reversed(PurePosixPath(path).parents[:-1]), PurePosixPath(path)]:
        name, place = part.as_posix(), project.root / part
        if not os.path.lexists(place):
            return None
        if place.is_symlink() or not place.is_dir():
            return None if name in removed else name
    for place in sorted((project.root / path).rglob("*")):
        name = place.relative_to(project.root).as_posix()
        if (place.is_symlink() or not place.is_dir()) and name not in removed:
            return name
    return None
