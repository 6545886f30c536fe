"""The wheel: small, the same from every source, and complete without a network."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from scaffolder import __version__

from .conftest import ROOT, SCAFFOLDER, Machine
from .trees import project_files


@pytest.fixture(scope="module")
def source(tool: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a source tree to build from."""
    folder = tmp_path_factory.mktemp("source") / "tree"
    shutil.copytree(tool, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    for licence in ROOT.glob("LICENSE*"):
        shutil.copy(licence, folder)
    return folder


def _build(source: Path, out: Path, kind: str) -> Path:
    # The repository's own environment has the build backend, so nothing is downloaded.
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", out, source],
        check=True,
        capture_output=True,
        text=True,
    )
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the wheel of the source tree."""
    return _build(source, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder in which the wheel is installed; dependencies come from this environment."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_is_under_500_kb(wheel: Path) -> None:
    """A first `pipx run` should not wait for it."""
    assert wheel.stat().st_size < 500_000


def test_the_template_travels_as_one_archive(wheel: Path) -> None:
    """Installers byte-compile every loose .py file, and copier would copy the result."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    packages = {name.partition("/")[0] for name in names}
    assert packages == {"scaffolder", f"scaffolder-{__version__}.dist-info"}
    assert "scaffolder/templates.tar.xz" in names
    assert not [name for name in names if "/template/" in name or name.endswith(".jinja")]


def test_the_wheel_of_an_unpacked_sdist_is_the_same(
    source: Path, wheel: Path, tmp_path: Path
) -> None:
    """Who builds from the sdist gets every template file, hidden ones too."""
    sdist = _build(source, tmp_path / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    again = _build(unpacked, tmp_path / "again", "wheel")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert {name: first.read(name) for name in first.namelist()} == {
            name: second.read(name) for name in second.namelist()
        }


def test_the_wheel_makes_the_same_project_as_the_checkout(
    machine: Machine, source: Path, installed: Path
) -> None:
    """Both read the same template."""
    trees = {}
    for name, path in (("checkout", source), ("wheel", installed)):
        folder = machine.work / name
        folder.mkdir()
        made = machine.run(
            *("new", "my-app", "--yes", "--no-install"), cwd=folder, env={"PYTHONPATH": str(path)}
        )
        assert made.code == 0, made.err
        trees[name] = project_files(folder / "my-app")
    assert trees["wheel"] == trees["checkout"]


def test_generating_needs_no_network(machine: Machine, installed: Path) -> None:
    """Tried where there is no network at all, not even loopback."""
    unshare = shutil.which("unshare")
    cut_off = [unshare or "unshare", "--net", "--map-root-user"]
    if unshare is None or subprocess.run([*cut_off, "true"], check=False).returncode != 0:
        pytest.skip("this machine does not let us make a network namespace")
    done = subprocess.run(
        [*cut_off, *SCAFFOLDER, "new", "my-app", "--yes", "--no-install"],
        cwd=machine.work,
        env=machine.env | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (machine.work / "my-app" / "pyproject.toml").exists()


def test_a_wheel_without_its_archive_says_so(machine: Machine, installed: Path) -> None:
    """A damaged installation is named, with the way out."""
    broken = machine.home / "broken"
    shutil.copytree(installed, broken, ignore=shutil.ignore_patterns("templates.tar.xz"))
    run = machine.run("new", "my-app", "--yes", env={"PYTHONPATH": str(broken)})
    run.refused(code=1, naming="has no template")
    (broken / "scaffolder" / "templates.tar.xz").write_bytes(os.urandom(2000))
    run = machine.run("new", "my-app", "--yes", env={"PYTHONPATH": str(broken)})
    run.refused(code=1, naming="cannot be read")
    assert machine.left_behind() == []
