"""Every test runs the real command as a process, in an empty home of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from scaffolder.packing import read_tree, unpack

ROOT = Path(__file__).resolve().parents[2]
SCAFFOLDER = (sys.executable, "-m", "scaffolder")


@dataclass(frozen=True, slots=True)
class Run:
    """How one command ended."""

    code: int
    out: str
    err: str

    def refused(self, *, code: int, naming: str) -> None:
        """Assert a refusal: empty stdout, one sentence with the value, one hint, no traceback."""
        assert self.code == code, self.err
        assert self.out == ""
        lines = self.err.strip().splitlines()
        assert [line.partition(":")[0] for line in lines] == ["error", "hint"], self.err
        assert naming in lines[0]
        assert not lines[0].endswith(".")


@dataclass(frozen=True, slots=True)
class Machine:
    """A private home, an empty folder to work in, and the tool that is tested."""

    home: Path
    work: Path
    tool: Path

    @property
    def env(self) -> dict[str, str]:
        """Return an environment without the developer's own settings."""
        kept = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        return env | {
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(self.work),
            "PYTHONPATH": str(self.tool),
        }

    def run(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Run:
        """Run `scaffolder` without a terminal."""
        done = subprocess.run(
            [*SCAFFOLDER, *arguments],
            cwd=cwd or self.work,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def generate(self, name: str, *flags: str) -> Path:
        """Make a project without installing it and return its folder."""
        made = self.run("new", name, "--yes", "--no-install", *flags)
        assert made.code == 0, made.err
        return self.work / name

    def git(self, folder: Path, *arguments: str) -> str:
        """Run git and return its output."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def left_behind(self) -> list[str]:
        """Return everything in the working folder, hidden entries too."""
        return sorted(path.relative_to(self.work).as_posix() for path in self.work.rglob("*"))


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the tool and its template, so that nobody edits them while tests run."""
    folder = tmp_path_factory.mktemp("tool")
    unpack(read_tree(ROOT), folder)
    for name in ("scaffolder", "releases"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def machine(tmp_path: Path, tool: Path) -> Machine:
    """Give an empty home and an empty working folder."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    return Machine(home, work, tool)
