"""`make release` seals a version once, and refuses what would make a bad one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scaffolder import __version__
from scaffolder.packing import read_archive, read_tree

from .conftest import ROOT, Machine, Run

FINAL = __version__.partition(".dev")[0]
CHANGES = f"""\
# Changelog

## Unreleased

## {FINAL}

### Added

- Something.

### What an upgrade changes in your project

Nothing.

## 0.0.1

### What an upgrade changes in your project

Everything.
"""


@pytest.fixture
def checkout(machine: Machine) -> Path:
    """Give a clean repository with the template, the package and the tools of this one."""
    folder = machine.work / "checkout"
    ignore = shutil.ignore_patterns("__pycache__", "*.tar.gz")
    shutil.copytree(machine.tool, folder, ignore=ignore)
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=ignore)
    (folder / "CHANGELOG.md").write_text(CHANGES)
    shutil.copy(ROOT / ".gitignore", folder)
    machine.git(folder, "init", "--quiet")
    machine.git(folder, "config", "user.name", "t")
    machine.git(folder, "config", "user.email", "t@example.com")
    _commit(machine, folder)
    return folder


def _commit(machine: Machine, folder: Path) -> None:
    machine.git(folder, "add", "--all")
    machine.git(folder, "commit", "--quiet", "--message", "work")


def _release(machine: Machine, checkout: Path, version: str = FINAL) -> Run:
    done = subprocess.run(
        [sys.executable, "-m", "tools.release", version],
        cwd=checkout,
        env=machine.env | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def test_a_release_is_a_sealed_commit_and_then_development(
    machine: Machine, checkout: Path
) -> None:
    """Two commits, no tag, a clean tree; the first one's seal is its own template."""
    done = _release(machine, checkout)
    assert done.code == 0, done.err
    assert machine.git(checkout, "status", "--porcelain") == ""
    assert machine.git(checkout, "rev-list", "--count", "HEAD").strip() == "3"
    assert machine.git(checkout, "tag") == ""
    sealed = machine.git(checkout, "show", "HEAD~1:scaffolder/__init__.py")
    assert f'__version__ = "{FINAL}"' in sealed
    major, minor, micro = FINAL.split(".")
    following = f"{major}.{minor}.{int(micro) + 1}.dev0"
    assert f'__version__ = "{following}"' in (checkout / "scaffolder" / "__init__.py").read_text()
    assert read_archive(checkout / "releases" / f"{FINAL}.tar.gz") == read_tree(checkout)


def test_after_a_release_both_templates_can_be_rendered(machine: Machine, checkout: Path) -> None:
    """The sealed one by name, the work tree by default."""
    assert _release(machine, checkout).code == 0
    (checkout / "template" / "NEW.md").write_text("new\n")
    for name, flags in (("old", ("--template-version", FINAL)), ("new", ())):
        made = machine.run(
            *("new", name, "--yes", "--no-install", *flags), env={"PYTHONPATH": str(checkout)}
        )
        assert made.code == 0, made.err
    assert not (machine.work / "old" / "NEW.md").exists()
    assert f"_commit: {FINAL}\n" in (machine.work / "old" / ".copier-answers.yml").read_text()
    assert (machine.work / "new" / "NEW.md").exists()


def test_a_sealed_version_is_not_released_again(machine: Machine, checkout: Path) -> None:
    """A sealed version never changes."""
    assert _release(machine, checkout).code == 0
    _release(machine, checkout).refused(code=1, naming="is sealed already")


def test_a_dirty_tree_is_not_released(machine: Machine, checkout: Path) -> None:
    """What is sealed must be what is committed."""
    (checkout / "template" / "NEW.md").write_text("new\n")
    _release(machine, checkout).refused(code=1, naming="is not clean")


@pytest.mark.parametrize("version", ["1.0", "1.0.0.dev0", "v1.0.0", "1.0.0rc1", "next", "01.0.0"])
def test_only_final_versions_are_released(machine: Machine, checkout: Path, version: str) -> None:
    """A development version is never sealed."""
    _release(machine, checkout, version).refused(code=1, naming=f"`{version}` is not a final")


def test_an_older_version_is_not_released(machine: Machine, checkout: Path) -> None:
    """Versions go up."""
    _release(machine, checkout, "0.0.1").refused(code=1, naming="0.0.1 is older")


@pytest.mark.parametrize(
    ("old", "new", "naming"),
    [
        (f"## {FINAL}\n", "## 99.0.0\n", f"has no section `## {FINAL}`"),
        ("project\n\nNothing.\n", "project\n\n", "says nothing under"),
        ("### What an upgrade", "### What somebody", "says nothing under"),
    ],
)
def test_a_release_without_its_changes_is_refused(
    machine: Machine, checkout: Path, old: str, new: str, naming: str
) -> None:
    """Whoever upgrades reads what it will do to the project."""
    assert old in CHANGES
    (checkout / "CHANGELOG.md").write_text(CHANGES.replace(old, new, 1))
    _commit(machine, checkout)
    _release(machine, checkout).refused(code=1, naming=naming)
