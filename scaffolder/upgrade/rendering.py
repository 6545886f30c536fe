"""The old and the new template, rendered side by side with the answers of the project."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scaffolder import generate, interrupt, project
from scaffolder.packing import unpack
from scaffolder.source import Snapshot
from scaffolder.upgrade.schema import is_migration, relinked


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered template: what a fresh project of this version would hold."""

    version: str
    folder: Path

    def paths(self) -> tuple[str, ...]:
        """Return every file and link, with slashes, sorted."""
        return tuple(sorted(_walk(self.folder, "")))


@dataclass(frozen=True, slots=True)
class Origin:
    """What the rendered answers file is to say about where it comes from."""

    version: str
    source: str


def render(snapshot: Snapshot, data: dict[str, str | bool], origin: Origin, box: Path) -> Rendered:
    """Render one version into the empty folder `box`."""
    template, built = box / "template", box / "project"
    unpack(snapshot.files, template)
    interrupt.check()
    generate.render(template, built, data)
    interrupt.check()
    link_migrations(built, snapshot)
    project.record_origin(built, origin.version, origin.source)
    return Rendered(snapshot.version, built)


def link_migrations(built: Path, snapshot: Snapshot) -> None:
    """Close the gaps that features left out leave in the chain of migrations."""
    root = "template/"
    template = {
        path: file.data
        for file in snapshot.files
        if is_migration(path := file.path.removeprefix(root))
    }
    present = {path: (built / path).read_bytes() for path in template if (built / path).is_file()}
    for path, text in relinked(present, template).items():
        (built / path).write_bytes(text)


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), f"{path}/")
            else:
                yield path
