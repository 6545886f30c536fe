"""A tree of files as git stores it: path -> mode and object id."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from scaffolder.upgrade.plumbing import Git, split

FILE, EXECUTABLE, LINK, SUBMODULE = "100644", "100755", "120000", "160000"


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at one path."""

    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        """Tell whether it is a regular file, executable or not."""
        return self.mode in (FILE, EXECUTABLE)


Tree = Mapping[str, Entry]


def read_tree(git: Git, treeish: str) -> dict[str, Entry]:
    """Return every file of a tree."""
    tree = {}
    for line in split(git.run("ls-tree", "-r", "-z", "--full-tree", treeish)):
        about, _, path = line.partition("\t")
        mode, _kind, oid = about.split()
        tree[path] = Entry(mode, oid)
    return tree


def write_tree(git: Git, tree: Tree) -> str:
    """Store a tree and return its id; `git` must have a GIT_INDEX_FILE that does not exist yet."""
    lines = [index_line(path, entry) for path, entry in tree.items()]
    git.run("update-index", "-z", "--index-info", data=b"".join(lines))
    return git.line("write-tree")


def index_line(path: str, entry: Entry, stage: int = 0) -> bytes:
    """Return one line for `git update-index -z --index-info`."""
    return f"{entry.mode} {entry.oid} {stage}\t".encode() + os.fsencode(path) + b"\0"


def removal_line(path: str, oid_length: int) -> bytes:
    """Return the line that removes all stages of a path."""
    return b"0 " + b"0" * oid_length + b"\t" + os.fsencode(path) + b"\0"
