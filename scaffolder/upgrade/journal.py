"""What an upgrade is about to do to a work tree, on disk before the first change.

The folder `scaffolder` in the git directory holds the journal, the index before and after, the
new files (`new/`) and, from the moment each is replaced, the old ones (`old/`). Without a journal
the folder is litter of a run that was killed before it changed anything.
"""

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from scaffolder.errors import BadInput
from scaffolder.upgrade.verdicts import FileVerdict, Verdict
from scaffolder.upgrade.versions import Step


@dataclass(frozen=True, slots=True)
class Print:
    """What a file is, down to the byte: enough to tell our state from an owner's edit."""

    kind: str
    digest: str
    executable: bool


@dataclass(frozen=True, slots=True)
class Item:
    """One path, relative to the top of the work tree, before and after; None is no file."""

    path: str
    old: Print | None
    new: Print | None


@dataclass(frozen=True, slots=True)
class Journal:
    """One upgrade of one work tree."""

    head: str
    index_before: str
    index_after: str
    items: tuple[Item, ...]
    step: Step
    verdicts: tuple[FileVerdict, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Area:
    """The folder in the git directory, and the index that an upgrade replaces."""

    git_dir: Path

    @property
    def folder(self) -> Path:
        return self.git_dir / "scaffolder"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.json"

    @property
    def index(self) -> Path:
        return self.git_dir / "index"

    @property
    def lock(self) -> Path:
        return self.git_dir / "index.lock"

    @property
    def index_before(self) -> Path:
        return self.folder / "index.before"

    @property
    def index_after(self) -> Path:
        return self.folder / "index.after"

    def new(self, path: str) -> Path:
        """Return where the new file waits."""
        return self.folder / "new" / path

    def old(self, path: str) -> Path:
        """Return where the replaced file is kept."""
        return self.folder / "old" / path

    def make(self) -> None:
        """Start with an empty folder; only ever called when there is no journal."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def clear(self) -> None:
        """End the upgrade: first the journal goes, then what is litter without it."""
        self.journal.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def write_journal(area: Area, journal: Journal) -> None:
    """Put the journal on disk, whole or not at all."""
    draft = area.folder / "journal.draft"
    with draft.open("w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(asdict(journal), file, ensure_ascii=True)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(area.journal)


def read_journal(area: Area) -> Journal | None:
    """Return the journal of an interrupted upgrade, or None."""
    try:
        loaded = json.loads(area.journal.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    verdicts = [FileVerdict(Verdict(v["verdict"]), v["path"], v["detail"])
                for v in loaded.pop("verdicts")]  # fmt: skip
    items = [
        Item(
            item["path"],
            None if item["old"] is None else Print(**item["old"]),
            None if item["new"] is None else Print(**item["new"]),
        )
        for item in loaded.pop("items")
    ]
    step, notes = Step(**loaded.pop("step")), tuple(loaded.pop("notes"))
    return Journal(**loaded, items=tuple(items), step=step, verdicts=tuple(verdicts), notes=notes)


def interruption(step: Step, *, also: str = "") -> BadInput:
    """Return what is said of an interrupted upgrade where it is not finished by the way."""
    return BadInput(
        f"the upgrade from {step.old} to {step.new} was interrupted here",
        hint="finish it with: scaffolder upgrade, or take it back with: "
        f"scaffolder upgrade --abort{also}",
    )


# A process that was killed while it started git leaves a child that holds the lock until it execs.
LOCK_SECONDS = 5.0


@contextmanager
def alone(area: Area) -> Iterator[None]:
    """Keep other upgrades of this work tree out; the system drops the lock of a dead process."""
    try:
        import fcntl
    except ImportError:  # Windows: git's own index.lock is the only guard there
        yield
        return
    with (area.git_dir / "scaffolder.lock").open("w") as file:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > deadline:
                    raise BadInput(
                        "another `scaffolder upgrade` is running in this work tree",
                        hint="wait for it to end",
                    ) from None
                time.sleep(0.05)
            else:
                break
        yield


def print_of(path: Path) -> Print | None:
    """Return what is at a path; None when nothing is, or a folder."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(path))  # noqa: PTH115
        return Print("link", hashlib.sha256(target).hexdigest(), executable=False)
    if stat.S_ISREG(status.st_mode):
        return Print(
            "file",
            hashlib.sha256(path.read_bytes()).hexdigest(),
            executable=bool(status.st_mode & stat.S_IXUSR),
        )
    return None if stat.S_ISDIR(status.st_mode) else Print("other", "", executable=False)
