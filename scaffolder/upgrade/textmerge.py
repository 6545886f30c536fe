"""Three versions of one file into one, with diff3 markers where they disagree.

Line endings are merged apart from the lines: a file converted to CRLF on one side and changed
on the other has no conflict, and comes out with one kind of ending.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from scaffolder.upgrade.plumbing import Git, GitFailed

_PROBED = 8000  # as far as git looks for a NUL byte


@dataclass(frozen=True, slots=True)
class Labels:
    """What the three sides are called in markers."""

    yours: str
    base: str
    theirs: str


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged text and how many places are left to a person."""

    data: bytes
    conflicts: int


def is_binary(data: bytes) -> bool:
    """Tell whether git would take it for binary."""
    return b"\0" in data[:_PROBED]


def merge_text(git: Git, base: bytes, yours: bytes, theirs: bytes, labels: Labels) -> Merged:
    """Merge the lines of three texts; none of them may be binary."""
    endings = [_ending(text) for text in (base, yours, theirs)]
    if None in endings:
        return _merge(git, base, yours, theirs, labels)
    old, mine, new = endings
    ending = mine if mine != old else new
    merged = _merge(git, _unix(base), _unix(yours), _unix(theirs), labels)
    if ending == b"\r\n":
        return Merged(merged.data.replace(b"\n", b"\r\n"), merged.conflicts)
    return merged


def _ending(text: bytes) -> bytes | None:
    windows, lines = text.count(b"\r\n"), text.count(b"\n")
    if text.count(b"\r") != windows or windows not in (0, lines):
        return None
    return b"\r\n" if windows else b"\n"


def _unix(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n")


def _merge(git: Git, base: bytes, yours: bytes, theirs: bytes, labels: Labels) -> Merged:
    with tempfile.TemporaryDirectory(prefix="scaffolder-") as box:
        paths = []
        for name, text in (("yours", yours), ("base", base), ("theirs", theirs)):
            path = Path(box) / name
            path.write_bytes(text)
            paths.append(str(path))
        named = [word for label in (labels.yours, labels.base, labels.theirs)
                 for word in ("-L", label)]  # fmt: skip
        # The exit code is the number of conflicts, up to 127.
        finished = git.ended("merge-file", "-p", "--zdiff3", *named, *paths, ok=range(128))
    if finished.returncode and b"<<<<<<<" not in finished.stdout:
        raise GitFailed("merge-file", finished.returncode, finished.stderr.decode())
    return Merged(finished.stdout, finished.returncode)
