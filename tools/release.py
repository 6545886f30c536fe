"""Seals a version of the template: `python -m tools.release X.Y.Z`.

Two commits: one at the final version with `releases/X.Y.Z.tar.gz`, from which wheels are built,
and one that moves on to the next development version. Tags nothing, publishes nothing; the tag
that belongs to the first commit is the version as it stands, since projects record it so.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from scaffolder.packing import read_tree, seal

UPGRADE_HEADING = "### What an upgrade changes in your project"
_VERSION_LINE = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_FINAL = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)


class Refused(Exception):
    """Why nothing was released; the text is one sentence."""


def release(root: Path, version: str) -> str:
    """Seal `version`, commit twice, and return the development version that follows."""
    following = _following(version)
    _check(root, version)
    archive = root / "releases" / f"{version}.tar.gz"
    archive.parent.mkdir(exist_ok=True)
    archive.write_bytes(seal(read_tree(root)))
    _set_version(root, version)
    _git(root, "add", "--", "releases", "scaffolder/__init__.py")
    _git(root, "commit", "--quiet", "--message", f"Release {version}: template sealed")
    _set_version(root, following)
    _git(root, "commit", "--quiet", "--all", "--message", f"Development goes on as {following}")
    return following


def _following(version: str) -> str:
    match = _FINAL.fullmatch(version)
    if match is None:
        raise Refused(f"`{version}` is not a final version, which has the form X.Y.Z")
    major, minor, micro = match.groups()
    return f"{major}.{minor}.{int(micro) + 1}.dev0"


def _check(root: Path, version: str) -> None:
    if _git(root, "status", "--porcelain"):
        raise Refused("the work tree is not clean; commit what belongs to the release first")
    if (root / "releases" / f"{version}.tar.gz").exists():
        raise Refused(f"{version} is sealed already, and a sealed version never changes")
    current = _numbers(_read_version(root))
    if _numbers(version) < current:
        raise Refused(f"{version} is older than what is being developed, {_read_version(root)}")
    section = _section((root / "CHANGELOG.md").read_text("utf-8"), version)
    if section is None:
        raise Refused(f"CHANGELOG.md has no section `## {version}`")
    if not section.partition(f"{UPGRADE_HEADING}\n")[2].partition("\n### ")[0].strip():
        raise Refused(
            f"the section {version} of CHANGELOG.md says nothing under `{UPGRADE_HEADING}`"
        )


def _section(changelog: str, version: str) -> str | None:
    heading = re.compile(rf"^## \[?{re.escape(version)}\]?(?: .*)?$", re.MULTILINE)
    match = heading.search(changelog)
    return (
        None
        if match is None
        else re.split(r"^## ", changelog[match.end() :], flags=re.MULTILINE)[0]
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition(".dev")[0].split("."))


def _read_version(root: Path) -> str:
    match = _VERSION_LINE.search((root / "scaffolder" / "__init__.py").read_text("utf-8"))
    assert match is not None, "scaffolder/__init__.py holds the version"
    return match[1]


def _set_version(root: Path, version: str) -> None:
    path = root / "scaffolder" / "__init__.py"
    text = _VERSION_LINE.sub(f'__version__ = "{version}"', path.read_text("utf-8"))
    path.write_text(text, "utf-8")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Refused(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def main() -> int:
    """Release the version on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="a final version, X.Y.Z")
    version = parser.parse_args().version
    try:
        following = release(Path(__file__).resolve().parents[1], version)
    except Refused as error:
        sys.stderr.write(f"error: {error}\nhint: make release VERSION=X.Y.Z\n")
        return 1
    sys.stderr.write(f"{version} is sealed and committed; development goes on as {following}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
