"""The upgrade up to its last step: two rendered templates and a project in, one result out.

Nothing here writes to the project; `transaction` and `branching` put the result somewhere.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scaffolder.upgrade.history import keep_history
from scaffolder.upgrade.merging import Merge, Sides, merge
from scaffolder.upgrade.plumbing import joined, split
from scaffolder.upgrade.registry import REGISTRY, Registry
from scaffolder.upgrade.rendering import Rendered
from scaffolder.upgrade.repository import Repository
from scaffolder.upgrade.scratch import YOURS, Scratch
from scaffolder.upgrade.textmerge import Labels
from scaffolder.upgrade.trees import FILE, Entry, read_tree
from scaffolder.upgrade.verdicts import Change, FileVerdict, Verdict, changes, judge
from scaffolder.upgrade.versions import Step


@dataclass(frozen=True, slots=True)
class Result:
    """What an upgrade makes of a project."""

    step: Step
    merge: Merge
    changes: tuple[Change, ...]
    verdicts: tuple[FileVerdict, ...]
    notes: tuple[str, ...]

    @property
    def touched(self) -> tuple[Change, ...]:
        """Return the changes, and the paths that only the index will show as in conflict.

        git's undo resets those too, so that an edit without a commit would be gone.
        """
        changed = {change.path for change in self.changes}
        tree, yours = self.merge.tree, self.merge.sides.yours
        others = sorted(self.merge.unmerged.keys() - changed)
        return (*self.changes, *(Change(p, yours.get(p), tree.get(p)) for p in others))

    @property
    def conflicts(self) -> tuple[FileVerdict, ...]:
        """Return the files that a person must settle."""
        return tuple(each for each in self.verdicts if each.verdict is Verdict.CONFLICT)


def combine(
    project: Repository, scratch: Scratch, old: Rendered, new: Rendered,
    *, registry: Registry = REGISTRY,
) -> Result:  # fmt: skip
    """Merge the way from `old` to `new` into the project's last commit."""
    yours = read_tree(project.git, project.tree)
    before, after = old.paths(), new.paths()
    left = _left_alone(project, {*before, *after} - yours.keys())
    sides = Sides(
        base=scratch.tree_of(old.folder, (path for path in before if path not in left)),
        yours=yours,
        theirs=scratch.tree_of(new.folder, (path for path in after if path not in left)),
        labels=Labels(YOURS, f"template {old.version}", f"template {new.version}"),
        label=f"template-{new.version}",
    )
    merged = merge(scratch, sides)
    step = Step(old.version, new.version)
    kept = keep_history(merged, scratch)
    for hook in registry.hooks_for(step):
        hook.apply(_Files(merged, scratch))
        merged.notes.append(f"your code: {hook.title}")
    kept |= _kept(left, old, new)
    renames = scratch.renames(yours, merged.tree)
    return Result(
        step,
        merged,
        changes(merged),
        tuple(judge(merged, renames, kept)),
        tuple(merged.notes),
    )


def _left_alone(project: Repository, paths: Iterable[str]) -> set[str]:
    """Return the paths that git ignores and the owner does not track: never part of an upgrade.

    A rule of the user's own (a global ignore file) counts only for a file that exists.
    """
    asked = [path for path in paths if not _beyond_link(project.root, path)]
    ignored = _ignored(project, asked, "-c", f"core.excludesFile={os.devnull}")
    there = [path for path in asked if os.path.lexists(project.root / path)]
    return ignored | _ignored(project, there)


def _ignored(project: Repository, paths: list[str], *settings: str) -> set[str]:
    if not paths:
        return set()
    names = [project.prefix + path for path in paths]
    output = project.git.run(
        *settings, "check-ignore", "-z", "--stdin", data=joined(names), ok=(0, 1)
    )
    return {name.removeprefix(project.prefix) for name in split(output)}


def _beyond_link(root: Path, path: str) -> bool:
    parents = list(PurePosixPath(path).parents)[:-1]
    return any((root / parent).is_symlink() for parent in parents)


def _kept(left: set[str], old: Rendered, new: Rendered) -> dict[str, str]:
    """Return the files left alone that the template does change."""
    return {
        path: "git ignores it, so it is yours alone; the template's version differs"
        for path in left
        if _content(new, path) not in (None, _content(old, path))
    }


def _content(rendered: Rendered, path: str) -> bytes | None:
    file = rendered.folder / path
    return file.read_bytes() if file.is_file() else None


@dataclass(frozen=True, slots=True)
class _Files:
    """The merged project for a hook; a file in conflict is hidden from it."""

    merge: Merge
    scratch: Scratch

    def paths(self) -> tuple[str, ...]:
        tree, unmerged = self.merge.tree, self.merge.unmerged
        return tuple(sorted(p for p, entry in tree.items() if entry.is_file and p not in unmerged))

    def read(self, path: str) -> bytes | None:
        return self.scratch.read(self.merge.tree[path]) if path in self.paths() else None

    def write(self, path: str, data: bytes) -> None:
        old = self.merge.tree.get(path, Entry(FILE, ""))
        self.merge.tree[path] = self.scratch.changed(old, data)
