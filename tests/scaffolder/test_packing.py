"""The archives: the same bytes for the same files, no litter, and a seal that holds."""

import os
import subprocess
from pathlib import Path

import pytest

from scaffolder.packing import (
    SealBroken,
    all_versions,
    bundle,
    bundled_versions,
    read_archive,
    read_tree,
    seal,
    unpack,
)

from .conftest import ROOT


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give a small template repository."""
    root = tmp_path / "tree"
    (root / "template" / "app").mkdir(parents=True)
    (root / "releases").mkdir()
    (root / "copier.yml").write_text("_subdirectory: template\n")
    (root / "template" / "app" / "__init__.py").write_text("")
    (root / "template" / ".gitignore.jinja").write_text("/.env\n")
    (root / "template" / "run").write_text("#!/bin/sh\n")
    (root / "template" / "run").chmod(0o755)
    return root


LITTER = (
    "template/app/__pycache__/x.cpython-311.pyc",
    "template/.venv/pyvenv.cfg",
    "template/.mypy_cache/x.json",
    "template/.hypothesis/x",
    "template/data/app.db",
    "template/.env",
    "template/my_app.egg-info/PKG-INFO",
)


def test_local_litter_is_not_packed(tree: Path) -> None:
    """A developer's environment, caches and secrets never travel."""
    clean = read_tree(tree)
    for name in LITTER:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("litter")
    assert read_tree(tree) == clean
    assert [file.path for file in clean] == [
        "copier.yml",
        "template/.gitignore.jinja",
        "template/app/__init__.py",
        "template/run",
    ]


def test_what_is_packed_is_what_git_would_track() -> None:
    """The list of litter and .gitignore say the same."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        [
            *("git", "ls-files", "--cached", "--others", "--exclude-standard"),
            *("template", "copier.yml", "CHANGELOG.md"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    assert {file.path for file in read_tree(ROOT)} == tracked


def test_archives_do_not_depend_on_times_owners_or_umask(tree: Path) -> None:
    """Whoever builds gets the same bytes."""
    sealed, bundled = seal(read_tree(tree)), bundle({"1.0.0": read_tree(tree)})
    for path in tree.rglob("*"):
        os.utime(path, (1, 1))
        if path.is_file():
            path.chmod(0o700 if path.stat().st_mode & 0o100 else 0o600)
    assert seal(read_tree(tree)) == sealed
    assert bundle({"1.0.0": read_tree(tree)}) == bundled


def test_archives_give_back_what_went_in(tree: Path, tmp_path: Path) -> None:
    """Names, bytes and the bit that makes a script run."""
    files = read_tree(tree)
    (tmp_path / "one.tar.gz").write_bytes(seal(files))
    (tmp_path / "all.tar.xz").write_bytes(bundle({"1.0.0": files, "1.1.0": files[:2]}))
    assert read_archive(tmp_path / "one.tar.gz") == files
    assert read_archive(tmp_path / "all.tar.xz", "1.0.0") == files
    assert read_archive(tmp_path / "all.tar.xz", "1.1.0") == files[:2]
    assert read_archive(tmp_path / "all.tar.xz", "1.0") == ()
    assert bundled_versions(tmp_path / "all.tar.xz") == ("1.0.0", "1.1.0")
    unpack(files, tmp_path / "out")
    (tmp_path / "out" / "releases").mkdir()
    assert read_tree(tmp_path / "out") == files


def test_a_sealed_version_never_changes(tree: Path) -> None:
    """A build of a final version fails when the template is not what was sealed."""
    (tree / "releases" / "1.0.0.tar.gz").write_bytes(seal(read_tree(tree)))
    assert set(all_versions(tree, "1.0.0")) == {"1.0.0"}
    (tree / "template" / "app" / "__init__.py").write_text("changed = True\n")
    with pytest.raises(SealBroken, match=r"differs from releases/1\.0\.0\.tar\.gz"):
        all_versions(tree, "1.0.0")


def test_a_changed_mode_breaks_the_seal_too(tree: Path) -> None:
    """A script that no longer runs is a change."""
    (tree / "releases" / "1.0.0.tar.gz").write_bytes(seal(read_tree(tree)))
    (tree / "template" / "run").chmod(0o644)
    with pytest.raises(SealBroken):
        all_versions(tree, "1.0.0")


def test_a_final_version_without_a_seal_is_not_built(tree: Path) -> None:
    """Only `make release` makes a final version."""
    with pytest.raises(SealBroken, match="has no seal"):
        all_versions(tree, "1.0.0")


def test_a_development_version_packs_the_work_tree_beside_the_sealed_ones(tree: Path) -> None:
    """It is never compared with anything."""
    (tree / "releases" / "1.0.0.tar.gz").write_bytes(seal(read_tree(tree)))
    (tree / "template" / "new").write_text("new\n")
    versions = all_versions(tree, "1.1.0.dev0")
    assert set(versions) == {"1.0.0", "1.1.0.dev0"}
    assert len(versions["1.1.0.dev0"]) == len(versions["1.0.0"]) + 1
