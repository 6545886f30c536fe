"""The two ways out of a journal: do what is left, or take back what was done.

Both may be killed too, and start again from what they find: every path is in its old state, in
its new state, or an owner changed it since, and then it is named and left alone.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from scaffolder import interrupt
from scaffolder.errors import BadInput
from scaffolder.upgrade import moving
from scaffolder.upgrade.journal import Area, Item, Journal, print_of
from scaffolder.upgrade.repository import Repository


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What an abort could not restore, since it was changed after the interruption."""

    left: tuple[str, ...]


def finish(project: Repository, area: Area, journal: Journal) -> tuple[str, ...]:
    """Do what is not done yet, then let the new index appear; the lock must be held.

    Returns where an edit was put that came in while the file was being replaced.
    """
    top = project.top
    for item in journal.items:
        if item.new is None:
            if print_of(top / item.path) is not None:
                moving.take_away(top / item.path, area.old(item.path))
            moving.prune((top / item.path).parent, top)
    for item in journal.items:
        target = top / item.path
        if item.new is not None and print_of(target) != item.new:
            moving.put(area.new(item.path), target, area.old(item.path) if item.old else None)
    area.lock.replace(area.index)
    saved = _save_late_edits(area, journal, top)
    _settle(project, area)
    return saved


def take_back(project: Repository, area: Area, journal: Journal) -> TakenBack:
    """Restore every path that is in its new state, and the index."""
    top, left = project.top, []
    for item in journal.items:
        if item.old is None and not _removed(top, item):
            left.append(item.path)
    for item in journal.items:
        if item.old is not None and not _restored(area, top, item):
            left.append(item.path)
    now = index_state(project, area.index)
    if now == journal.index_after:
        area.index_before.replace(area.index)
    elif now != journal.index_before:
        left.append("the index")
    if _ours(area):
        area.lock.unlink()
    _settle(project, area)
    return TakenBack(tuple(left))


def resume(project: Repository, area: Area, journal: Journal) -> tuple[str, ...]:
    """Finish an interrupted upgrade as `finish` does; BadInput when the project changed since."""
    _check_lock(area)
    if index_state(project, area.index) == journal.index_after:
        interrupt.close()
        if _ours(area):
            area.lock.unlink()
        saved = _save_late_edits(area, journal, project.top)
        _settle(project, area)
        return saved
    _check_untouched(project, area, journal)
    interrupt.close()
    if not area.lock.exists():
        _relock(area)
    return finish(project, area, journal)


def abort(project: Repository, area: Area, journal: Journal) -> TakenBack:
    """Take an interrupted upgrade back."""
    _check_lock(area)
    interrupt.close()
    return take_back(project, area, journal)


def index_state(project: Repository, index: Path) -> str:
    """Return a digest of what an index holds; unlike its bytes, `git status` does not change it."""
    git = project.git.with_(GIT_INDEX_FILE=str(index))
    return hashlib.sha256(git.run("ls-files", "--stage", "-z")).hexdigest()


def _save_late_edits(area: Area, journal: Journal, top: Path) -> tuple[str, ...]:
    """Put back, under another name, what an editor wrote into a file that was being replaced."""
    saved = []
    for item in journal.items:
        kept = area.old(item.path)
        if item.old is None or print_of(kept) in (None, item.old):
            continue
        names = (f"{item.path}.yours{number or ''}" for number in range(1000))
        name = next(name for name in names if not os.path.lexists(top / name))
        moving.put_back(kept, top / name)
        saved.append(name)
    return tuple(saved)


def _settle(project: Repository, area: Area) -> None:
    """Let git see that the files are those of its index (the undo needs it), then end."""
    project.git.run("update-index", "-q", "--refresh", ok=range(256))
    area.clear()


def _check_lock(area: Area) -> None:
    if area.lock.exists() and not _ours(area):
        raise BadInput(
            f"`{area.lock}` exists, and it is not of this tool: git is at work here",
            hint="wait for it to end; if no git runs any more, remove that file",
        )


def _ours(area: Area) -> bool:
    """Tell whether index.lock is what this tool put there, or the start of it."""
    if not (area.lock.exists() and area.index_after.exists()):
        return False
    if area.lock.samefile(area.index_after):
        return True
    return area.index_after.read_bytes().startswith(area.lock.read_bytes())


def _check_untouched(project: Repository, area: Area, journal: Journal) -> None:
    top = project.top
    changed = [
        item.path
        for item in journal.items
        if (now := print_of(top / item.path)) not in (item.old, item.new)
        or (now != item.new and item.new is not None and not _lies(area.new(item.path)))
    ]
    if index_state(project, area.index) != journal.index_before:
        changed.append("the index")
    if project.head != journal.head:
        changed.append("HEAD")
    if changed:
        raise BadInput(
            f"an upgrade was interrupted here, and since then {', '.join(changed)} changed, so it "
            "cannot be finished",
            hint="scaffolder upgrade --abort (it leaves what you changed as it is)",
        )


def _relock(area: Area) -> None:
    moving.link_or_copy(area.index_after, area.lock)


def _removed(top: Path, item: Item) -> bool:
    """Remove a file that the upgrade added; False when it is not that any more."""
    target = top / item.path
    moving.sweep(target)
    now = print_of(target)
    if now is not None and now == item.new:
        moving.remove(target)
        now = None
    if now is None:
        moving.prune(target.parent, top)
    return now is None


def _restored(area: Area, top: Path, item: Item) -> bool:
    target, kept = top / item.path, area.old(item.path)
    moving.sweep(target)
    now = print_of(target)
    if now == item.old:
        return True
    if now != item.new or print_of(kept) != item.old:
        return False
    moving.put_back(kept, target)
    return True


def _lies(path: Path) -> bool:
    return print_of(path) is not None
