"""A bare repository in a temporary folder: trees of rendered templates, and the merge.

It reads the project's objects and writes its own, so that a dry run leaves no trace, and sees
no configuration of the user, so that the same inputs always merge alike.
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from scaffolder.upgrade.plumbing import Git, joined, split
from scaffolder.upgrade.repository import Repository
from scaffolder.upgrade.trees import Entry, Tree, read_tree, write_tree

YOURS = "yours"
_BASE = "base"
_MERGE_SETTINGS = (
    *("-c", "merge.conflictStyle=zdiff3", "-c", "merge.renames=true"),
    *("-c", "merge.renameLimit=0", "-c", "merge.directoryRenames=true"),
)
_AUTHOR = "scaffolder <scaffolder@localhost> 0 +0000"


@dataclass(frozen=True, slots=True)
class RawMerge:
    """What git made of it: a whole tree, and the stages of every path it could not settle."""

    tree: dict[str, Entry]
    stages: dict[str, dict[int, Entry]]


@dataclass(frozen=True, slots=True)
class Scratch:
    """The temporary repository in `folder`."""

    folder: Path
    git: Git
    _written: dict[frozenset[tuple[str, Entry]], str] = field(default_factory=dict)

    def tree_of(self, rendered: Path, paths: Iterable[str]) -> dict[str, Entry]:
        """Return the named files of a rendered template as `git add` would store them."""
        git = self.git.with_(GIT_WORK_TREE=str(rendered), GIT_INDEX_FILE=str(self._index()))
        git.run("-c", "core.bare=false", "update-index", "--add", "-z", "--stdin",
                data=joined(paths))  # fmt: skip
        return read_index(git)

    def merge(self, base: Tree, yours: Tree, theirs: Tree, label: str) -> RawMerge:
        """Merge two trees with their base; `label` names the newer template in file names."""
        self._commit({_BASE: base, YOURS: yours, label: theirs})
        output = self.git.run(
            *_MERGE_SETTINGS, "merge-tree", "--write-tree", "--no-messages", "-z", YOURS, label,
            ok=(0, 1),
        )  # fmt: skip
        tree, *unsettled = split(output)
        stages: dict[str, dict[int, Entry]] = {}
        for line in unsettled:
            about, _, path = line.partition("\t")
            mode, oid, stage = about.split()
            stages.setdefault(path, {})[int(stage)] = Entry(mode, oid)
        return RawMerge(read_tree(self.git, tree), stages)

    def renames(self, old: Tree, new: Tree) -> dict[str, str]:
        """Return new path -> old path of the files that git takes for renamed."""
        output = self.git.run(
            *("diff-tree", "-r", "-z", "-M", "-l0", "--no-rename-empty", "--diff-filter=R"),
            *("--name-status", self.write_tree(old), self.write_tree(new)),
        )
        fields = split(output)
        return {fields[i + 2]: fields[i + 1] for i in range(0, len(fields), 3)}

    def write(self, data: bytes) -> str:
        """Store a blob and return its id."""
        return self.git.run("hash-object", "-w", "--stdin", data=data).decode().strip()

    def changed(self, entry: Entry, data: bytes) -> Entry:
        """Return an entry with other content."""
        return replace(entry, oid=self.write(data))

    def read(self, entry: Entry) -> bytes:
        """Return what a blob holds."""
        return self.git.run("cat-file", "blob", entry.oid)

    def read_all(self, entries: Iterable[Entry]) -> dict[str, bytes]:
        """Return object id -> content of many blobs."""
        oids = sorted({entry.oid for entry in entries})
        stream = io.BytesIO(
            self.git.run("cat-file", "--batch", data="".join(f"{oid}\n" for oid in oids).encode())
        )
        contents = {}
        for oid in oids:
            size = int(stream.readline().split()[2])
            contents[oid] = stream.read(size)
            stream.read(1)
        return contents

    def write_tree(self, tree: Tree) -> str:
        """Store a tree and return its id."""
        key = frozenset(tree.items())
        if key not in self._written:
            git = self.git.with_(GIT_INDEX_FILE=str(self._index()))
            self._written[key] = write_tree(git, tree)
        return self._written[key]

    def _commit(self, trees: dict[str, Tree]) -> None:
        commands = []
        for name, tree in trees.items():
            parent = "" if name == _BASE else f"from refs/heads/{_BASE}\n"
            commands.append(
                f"commit refs/heads/{name}\ncommitter {_AUTHOR}\ndata 0\n{parent}"
                f"M 040000 {self.write_tree(tree)} \n\n"
            )
        self.git.run("fast-import", "--quiet", "--force", data="".join(commands).encode())

    def _index(self) -> Path:
        path = self.folder / "index"
        path.unlink(missing_ok=True)
        return path


def open_scratch(folder: Path, project: Repository) -> Scratch:
    """Make the temporary repository; it sees every object of the project."""
    folder.mkdir()
    plain = Git(folder, isolated=True)
    plain.run(
        "init", "--quiet", "--bare", "--template=", f"--object-format={project.object_format}", "."
    )
    info = folder / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "alternates").write_text(f"{project.objects}\n", encoding="utf-8")
    return Scratch(folder, plain.with_(GIT_DIR=str(folder)))


def read_index(git: Git) -> dict[str, Entry]:
    """Return the settled entries of an index."""
    tree = {}
    for line in split(git.run("ls-files", "--stage", "-z")):
        about, _, path = line.partition("\t")
        mode, oid, stage = about.split()
        if stage == "0":
            tree[path] = Entry(mode, oid)
    return tree
