"""What each sealed release renders to, as one digest: `python -m tests.upgrade.rendered` stores it.

A newer copier that rendered an old release differently would make every owner's file look edited.
"""

import hashlib
import json
import tempfile
from pathlib import Path

from scaffolder import packing
from scaffolder.questions import read_questions
from scaffolder.source import CANONICAL_URL, Snapshot
from scaffolder.upgrade.rendering import Origin, render

ROOT = Path(__file__).resolve().parents[2]
STORED = Path(__file__).with_name("rendered.json")


def digest(version: str) -> str:
    """Render a sealed release with its default answers and return the digest of all files."""
    files = packing.read_archive(packing.sealed_versions(ROOT / "releases")[version])
    snapshot = Snapshot(version, files)
    questions = read_questions(snapshot.text("copier.yml"))
    data: dict[str, str | bool] = {each.name: each.default for each in questions.items}
    total = hashlib.sha256()
    with tempfile.TemporaryDirectory() as box:
        rendered = render(snapshot, data, Origin(version, CANONICAL_URL), Path(box))
        for path in rendered.paths():
            content = (rendered.folder / path).read_bytes()
            total.update(f"{path} {hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def stored() -> dict[str, str]:
    """Return version -> digest as it was when the release was made."""
    loaded: dict[str, str] = json.loads(STORED.read_text("utf-8"))
    return loaded


def main() -> None:
    """Store the digests of releases that have none; those that have one keep it."""
    known = stored()
    for version in packing.sealed_versions(ROOT / "releases"):
        known.setdefault(version, digest(version))
    STORED.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
