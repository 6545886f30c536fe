"""One word for every file that an upgrade touches, or leaves alone for a reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scaffolder.upgrade.merging import Merge
from scaffolder.upgrade.trees import Entry, Tree


class Verdict(StrEnum):
    """What becomes of a file."""

    ADDED = "added"
    UPDATED = "updated"
    MERGED = "merged"
    RENAMED = "renamed"
    REMOVED = "removed"
    CONFLICT = "conflict"
    KEPT_DELETED = "kept deleted"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict on one path; `detail` says what the word leaves open."""

    verdict: Verdict
    path: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between the last commit and the result."""

    path: str
    old: Entry | None
    new: Entry | None


def changes(merge: Merge) -> tuple[Change, ...]:
    """Return every path that the upgrade writes or removes."""
    yours, result = merge.sides.yours, merge.tree
    return tuple(
        Change(path, yours.get(path), result.get(path))
        for path in sorted({*yours, *result})
        if yours.get(path) != result.get(path)
    )


def judge(merge: Merge, renames: Mapping[str, str], kept: Mapping[str, str]) -> list[FileVerdict]:
    """Return the verdicts, by path; `renames` are the result's, new path -> old path.

    `kept` are paths where an owner's file stays in place of the template's, with the reason.
    """
    found = {path: _conflict(merge, path) for path in merge.unmerged}
    gone = set(renames.values())
    for change in changes(merge):
        if change.path not in found and change.path not in gone:
            found[change.path] = _change(merge.sides.base, change, renames.get(change.path))
    for path in merge.kept_deleted:
        found[path] = FileVerdict(
            Verdict.KEPT_DELETED, path, "you deleted it, the template still changes it"
        )
    for path, reason in kept.items():
        found[path] = FileVerdict(Verdict.KEPT, path, reason)
    return [found[path] for path in sorted(found)]


def _change(base: Tree, change: Change, renamed_from: str | None) -> FileVerdict:
    path = change.path
    if renamed_from is not None:
        return FileVerdict(Verdict.RENAMED, path, f"was {renamed_from}")
    if change.old is None:
        return FileVerdict(Verdict.ADDED, path)
    if change.new is None:
        return FileVerdict(Verdict.REMOVED, path)
    edited = base.get(path) != change.old
    return FileVerdict(Verdict.MERGED if edited else Verdict.UPDATED, path)


def _conflict(merge: Merge, path: str) -> FileVerdict:
    stages, places = merge.unmerged[path], merge.places.get(path)
    if places is not None:
        detail = f"{places} place{'s' if places > 1 else ''}"
    elif 2 in stages and 3 in stages:
        detail = "both changed it and it cannot be merged as text; yours stays"
    elif 2 in stages and path not in merge.sides.yours:
        detail = "the template has a folder of that name; yours is here"
    elif 2 in stages:
        detail = "you changed it, the template removed or moved it; yours stays"
    elif 3 in stages:
        detail = "the template's file; yours is elsewhere or in its way"
    else:
        detail = "you and the template renamed it to different names"
    return FileVerdict(Verdict.CONFLICT, path, detail)
