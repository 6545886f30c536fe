"""Which files an owner has changed since generation: the work tree against the rendered base."""

from dataclasses import dataclass
from pathlib import Path

from scaffolder.upgrade.rendering import Rendered


@dataclass(frozen=True, slots=True)
class Edits:
    """Paths of the template that differ now; `deleted` are gone, or have another name."""

    edited: tuple[str, ...]
    deleted: tuple[str, ...]


def edits(project: Path, base: Rendered, ignored: frozenset[str]) -> Edits:
    """Return what differs from a rendered template; line endings alone are no edit."""
    edited, deleted = [], []
    for path in base.paths():
        if path in ignored:
            continue
        now, then = project / path, base.folder / path
        if not now.is_symlink() and not now.is_file():
            deleted.append(path)
        elif not _same(now, then):
            edited.append(path)
    return Edits(tuple(edited), tuple(deleted))


def _same(now: Path, then: Path) -> bool:
    if now.is_symlink() or then.is_symlink():
        return now.is_symlink() and then.is_symlink() and now.readlink() == then.readlink()
    if (now.stat().st_mode ^ then.stat().st_mode) & 0o100:
        return False
    return _unix(now.read_bytes()) == _unix(then.read_bytes())


def _unix(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")
