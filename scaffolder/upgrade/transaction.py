"""Puts a result into the work tree: everything prepared, journal, lock, files, index.

Up to the journal nothing is touched. From then on a kill leaves files that are whole, old or new,
and a journal that tells which; `recovery` finishes or takes back. git's own index.lock is held
meanwhile, so no other git command comes in between, and the new index appears by one rename.
"""

import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from scaffolder import interrupt
from scaffolder.errors import BadInput
from scaffolder.upgrade import moving, recovery
from scaffolder.upgrade.engine import Result
from scaffolder.upgrade.journal import (
    Area,
    Item,
    Journal,
    Print,
    print_of,
    write_journal,
)
from scaffolder.upgrade.plumbing import joined, shown
from scaffolder.upgrade.recovery import index_state
from scaffolder.upgrade.repository import Repository
from scaffolder.upgrade.scratch import Scratch
from scaffolder.upgrade.trees import SUBMODULE, Entry, index_line, removal_line
from scaffolder.upgrade.verdicts import Change
from scaffolder.upgrade.worktree import OUTSIDE, Obstacle, check_ready, obstacles, read_state

NAMED = 10  # files in the way; of more, the rest is counted


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the work tree held when it was looked at."""

    index: str
    files: dict[str, Print | None]


def apply(project: Repository, scratch: Scratch, result: Result) -> tuple[str, ...]:
    """Bring the result into work tree and index; all of it, or nothing with BadInput.

    Returns where an edit was put that came in at that very moment.
    """
    area = Area(project.git_dir)
    # Seen before it is checked: an edit in between is then noticed under the lock.
    seen = _look(project, area, result.touched)
    check_clear(project, result)
    area.make()
    try:
        import_objects(project, scratch, result)
        _write_index(project, area, result)
        journal = _prepare(project, area, result, seen)
        interrupt.close()
    except BaseException:
        area.clear()
        raise
    write_journal(area, journal)
    _enter(project, area, journal)
    return _finish(project, area, journal)


def check_clear(project: Repository, result: Result) -> None:
    """Raise BadInput when the upgrade cannot start or would have to overwrite something."""
    state = read_state(project)
    check_ready(project, state)
    found = obstacles(project, state, result.touched)
    if found:
        raise _in_the_way(found)


def _in_the_way(found: tuple[Obstacle, ...]) -> BadInput:
    """Return the refusal; what a sparse checkout leaves out comes last, it may be very much."""
    found = tuple(sorted(found, key=lambda each: each.reason == OUTSIDE))
    names = [f"`{shown(each.path)}` {each.reason}" for each in found[:NAMED]]
    if len(found) > NAMED:
        names.append(f"and {len(found) - NAMED} more")
    outside = [each.reason == OUTSIDE for each in found]
    ways = [] if all(outside) else ["commit, move or restore them"]
    ways += ["git sparse-checkout disable"] if any(outside) else []
    return BadInput(
        f"nothing was changed, since {len(found)} file{'s are' if len(found) > 1 else ' is'} "
        f"in the way: {'; '.join(names)}",
        hint=f"{'; '.join(ways)}; or: scaffolder upgrade --branch NAME",
    )


def _finish(project: Repository, area: Area, journal: Journal) -> tuple[str, ...]:
    try:
        return recovery.finish(project, area, journal)
    except OSError as error:
        left = recovery.take_back(project, area, journal).left
        also = f"; left as they are: {', '.join(left)}" if left else ""
        raise BadInput(
            f"`{error.filename}` could not be written ({error.strerror}), and the upgrade was "
            f"taken back{also}",
            hint="mend that, and run the command again",
        ) from None


def import_objects(project: Repository, scratch: Scratch, result: Result) -> None:
    """Copy into the project what its index will refer to."""
    entries = [change.new for change in result.changes]
    for stages in result.merge.unmerged.values():
        entries += stages.values()
    oids = {entry.oid for entry in entries if entry is not None and entry.mode != SUBMODULE}
    if oids:
        pack = scratch.git.run(
            "pack-objects", "--stdout", "-q", data="\n".join(sorted(oids)).encode() + b"\n"
        )
        project.git.run("unpack-objects", "-q", data=pack)


def index_lines(project: Repository, result: Result) -> bytes:
    """Return what `git update-index --index-info` needs to make the result of the last commit."""
    removals, lines = [], []
    for path, stages in _entries(result):
        name = project.prefix + path
        removals.append(removal_line(name, len(project.head)))
        lines += [index_line(name, entry, stage) for stage, entry in sorted(stages.items())]
    # All removals first: a folder may take the place of a file, and the other way round.
    return b"".join([*removals, *lines])


def _entries(result: Result) -> Iterable[tuple[str, dict[int, Entry]]]:
    for change in result.changes:
        if change.path not in result.merge.unmerged:
            yield change.path, {} if change.new is None else {0: change.new}
    yield from result.merge.unmerged.items()


def _look(project: Repository, area: Area, changes: Iterable[Change]) -> _Seen:
    files = {change.path: print_of(project.root / change.path) for change in changes}
    return _Seen(index_state(project, area.index), files)


def _write_index(project: Repository, area: Area, result: Result) -> None:
    for copy in (area.index_before, area.index_after):
        shutil.copy2(area.index, copy)
    git = project.git.with_(GIT_INDEX_FILE=str(area.index_after))
    git.run("update-index", "-z", "--index-info", data=index_lines(project, result))


def _prepare(project: Repository, area: Area, result: Result, seen: _Seen) -> Journal:
    _check_out(project, area, result)
    items = []
    for change in result.changes:
        path, old = project.prefix + change.path, seen.files[change.path]
        new = None
        if change.new is not None and change.new.mode != SUBMODULE:
            _keep_permissions(project, area, change.path)
            new = print_of(area.new(path))
        items.append(Item(path, old, new))
    return Journal(
        head=project.head,
        index_before=seen.index,
        index_after=index_state(project, area.index_after),
        items=tuple(items),
        step=result.step,
        verdicts=result.verdicts,
        notes=result.notes,
    )


def _check_out(project: Repository, area: Area, result: Result) -> None:
    """Write the new files as git would into the work tree: line endings, filters, links."""
    wanted = {
        project.prefix + change.path: change.new
        for change in result.changes
        if change.new is not None
    }
    git = project.git.with_(GIT_INDEX_FILE=str(area.folder / "index.files"))
    lines = b"".join(index_line(path, entry) for path, entry in wanted.items())
    git.run("update-index", "-z", "--index-info", data=lines)
    area.new("").mkdir()
    git.run(
        "checkout-index", "-q", "-f", "-z", "--stdin", f"--prefix={area.folder / 'new'}/",
        data=joined(wanted),
    )  # fmt: skip


def _keep_permissions(project: Repository, area: Area, path: str) -> None:
    """Give a new file the permissions of the one it replaces, but for a changed exec bit."""
    old, new = project.root / path, area.new(project.prefix + path)
    if old.is_symlink() or new.is_symlink() or not old.is_file():
        return
    before, after = stat.S_IMODE(old.stat().st_mode), stat.S_IMODE(new.stat().st_mode)
    if bool(before & stat.S_IXUSR) == bool(after & stat.S_IXUSR):
        new.chmod(before)


def _enter(project: Repository, area: Area, journal: Journal) -> None:
    """Take git's lock and look again; leave without a trace if anything moved meanwhile."""
    try:
        moving.link_or_copy(area.index_after, area.lock)
    except FileExistsError:
        area.clear()
        raise BadInput(
            f"`{area.lock}` exists: git is at work in this repository",
            hint="wait for it to end; if no git runs any more, remove that file",
        ) from None
    changed = [item.path for item in journal.items if print_of(project.top / item.path) != item.old]
    if index_state(project, area.index) != journal.index_before:
        changed.append("the index")
    if project.git.line("rev-parse", "HEAD") != journal.head:
        changed.append("HEAD")
    if changed:
        area.lock.unlink()
        area.clear()
        raise BadInput(
            f"`{changed[0]}` changed while the upgrade was prepared, and nothing was done",
            hint="run the command again",
        )
