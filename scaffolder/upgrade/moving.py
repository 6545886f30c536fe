"""Single steps on a work tree, each of which a kill leaves done or not done, never half.

A replaced file is first linked into the journal's folder, then replaced by one rename, so the
path is never without a file. An editor that still holds the old file open writes into the copy
that is kept, where it is found at the end.
"""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

_DRAFT = ".scaffolder-draft"


def put(waiting: Path, target: Path, kept: Path | None) -> None:
    """Move the waiting file to its target; what stands there is kept under `kept`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if kept is not None:
        _keep(target, kept)
    _rename(waiting, target)


def take_away(target: Path, kept: Path) -> None:
    """Move a file out of the work tree."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    _rename(target, kept)


def put_back(kept: Path, target: Path) -> None:
    """Move a kept file back over whatever took its place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _rename(kept, target)


def remove(target: Path) -> None:
    """Remove a file that did not exist before."""
    target.unlink()


def prune(folder: Path, top: Path) -> None:
    """Remove empty folders upwards, never `top` itself."""
    while folder != top and top in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def sweep(target: Path) -> None:
    """Remove the draft that a kill may have left beside a target on another file system."""
    with suppress(OSError):
        _draft(target).unlink(missing_ok=True)


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` appear with the content of `source`; FileExistsError if it is there."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(source.read_bytes())


def _keep(target: Path, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.unlink(missing_ok=True)
    try:
        os.link(target, kept, follow_symlinks=False)
    except OSError:
        shutil.copy2(target, kept, follow_symlinks=False)


def _rename(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # Two file systems: copy beside the target, so that the last step is a rename again.
        draft = _draft(target)
        draft.unlink(missing_ok=True)
        shutil.copy2(source, draft, follow_symlinks=False)
        draft.replace(target)
        source.unlink()


def _draft(target: Path) -> Path:
    return target.parent / f"{_DRAFT}-{target.name}"
