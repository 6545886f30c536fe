"""From git's merge of whole trees to one that a person can work with.

git finds renames and merges file by file. What it leaves unsettled is looked at again:
a file that the owner deleted stays deleted, text gets diff3 markers with names that mean
something, and the copies that git makes beside a link that replaced a file are dropped.
Invariant: an owner's file is in the tree, or in a stage, or was deleted by the owner, or was
unchanged since generation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scaffolder.upgrade.scratch import YOURS, RawMerge, Scratch
from scaffolder.upgrade.textmerge import Labels, is_binary, merge_text
from scaffolder.upgrade.trees import EXECUTABLE, Entry, Tree

Stages = dict[int, Entry]
_BASE, _YOURS, _THEIRS = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Sides:
    """What goes into a merge; `label` is a file name suffix for the newer template."""

    base: Tree
    yours: Tree
    theirs: Tree
    labels: Labels
    label: str


@dataclass(slots=True)
class Merge:
    """The merged tree; `unmerged` are the stages of paths that a person must settle."""

    sides: Sides
    tree: dict[str, Entry]
    unmerged: dict[str, Stages] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    kept_deleted: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def merge(scratch: Scratch, sides: Sides) -> Merge:
    """Merge the newer template into the owner's tree."""
    raw = scratch.merge(sides.base, sides.yours, sides.theirs, sides.label)
    renames = scratch.renames(sides.base, sides.theirs)
    result = Merge(sides, dict(raw.tree))
    for path, stages in _tidied(raw, result, sides).items():
        _settle(scratch, result, path, stages)
    _keep_folders_deleted(result, renames)
    return result


def _tidied(raw: RawMerge, result: Merge, sides: Sides) -> dict[str, Stages]:
    """Return the stages with git's `name~side` copies beside a link put back to `name`."""
    stages: dict[str, Stages] = {path: dict(found) for path, found in raw.stages.items()}
    for copy in list(stages):
        path, marker, side = copy.rpartition("~")
        if not marker or path not in stages or side not in (YOURS, sides.label):
            continue
        stages[path] = stages.pop(copy) | stages[path]
        if side == YOURS:
            result.tree[path] = result.tree[copy]
        del result.tree[copy]
    return stages


def _settle(scratch: Scratch, result: Merge, path: str, stages: Stages) -> None:
    yours, theirs = stages.get(_YOURS), stages.get(_THEIRS)
    if yours is None and theirs is not None and _BASE in stages:
        result.tree.pop(path, None)
        result.kept_deleted.add(path)
    elif yours is None or theirs is None or not (yours.is_file and theirs.is_file):
        _leave(result, path, stages)
    else:
        _settle_content(scratch, result, path, stages)


def _settle_content(scratch: Scratch, result: Merge, path: str, stages: Stages) -> None:
    yours, theirs, base = stages[_YOURS], stages[_THEIRS], stages.get(_BASE)
    mode = _mode(base, yours, theirs)
    if yours.oid == theirs.oid:
        result.tree[path] = replace(yours, mode=mode)
        return
    before = b"" if base is None or not base.is_file else scratch.read(base)
    mine, new = scratch.read(yours), scratch.read(theirs)
    if any(is_binary(data) for data in (before, mine, new)):
        _leave(result, path, stages)
        return
    merged = merge_text(scratch.git, before, mine, new, result.sides.labels)
    result.tree[path] = Entry(mode, scratch.write(merged.data))
    if merged.conflicts:
        result.unmerged[path] = stages
        result.places[path] = merged.conflicts


def _leave(result: Merge, path: str, stages: Stages) -> None:
    """Leave a path to the owner, whose version stays in the work tree."""
    if (yours := stages.get(_YOURS)) is not None:
        result.tree[path] = yours
    result.unmerged[path] = stages


def _mode(base: Entry | None, yours: Entry, theirs: Entry) -> str:
    if base is None:
        return EXECUTABLE if EXECUTABLE in (yours.mode, theirs.mode) else yours.mode
    return theirs.mode if yours.mode == base.mode else yours.mode


def _keep_folders_deleted(result: Merge, renames: Mapping[str, str]) -> None:
    """Take back files that the template adds to a folder which the owner deleted as a whole.

    Not one that the template moved there: the owner may still use it.
    """
    sides = result.sides
    deleted = _folders(sides.base) - _folders(sides.yours)
    for path, entry in list(result.tree.items()):
        added = path not in sides.yours and path not in sides.base and path in sides.theirs
        added = added and path not in renames
        if added and entry == sides.theirs[path] and _parent(path) in deleted:
            del result.tree[path]
            result.kept_deleted.add(path)


def _folders(tree: Tree) -> set[str]:
    return {_parent(path) for path in tree if "/" in path}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
