"""A copy of the tool that carries two synthetic templates, and projects made by it.

The tool is the real package, as a checkout with sealed releases; it runs as a process, in a
network namespace without interfaces where the system allows one.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scaffolder import packing
from tests.upgrade.templates import FIRST, SECOND, Files, packed

ROOT = Path(__file__).resolve().parents[2]
SERVER = Path(__file__).with_name("server.py")


def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--net", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


OFFLINE = ("unshare", "--net") if _can_unshare() else ()


@dataclass(frozen=True, slots=True)
class Run:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def verdicts(self) -> dict[str, str]:
        """Return path -> verdict, as printed."""
        lines = [line.partition("  (")[0] for line in self.out.splitlines()]
        return {line[14:]: line[:12].strip() for line in lines if line[12:14] == "  "}

    def refused(self, *naming: str) -> None:
        """Assert a refusal: exit 2, nothing on stdout, one sentence with the value, one hint."""
        assert self.code == 2, self.out + self.err
        assert self.out == ""
        rows = self.err.strip().splitlines()
        assert [row.partition(":")[0] for row in rows] == ["error", "hint"], self.err
        for name in naming:
            assert name in rows[0]


@dataclass(frozen=True, slots=True)
class Tool:
    """A copy of the tool with its own versions of the template."""

    folder: Path
    home: Path

    @property
    def env(self) -> dict[str, str]:
        """Return an environment without the developer's own settings."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return kept | {
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *arguments: str, cwd: Path) -> Run:
        """Run `scaffolder` without a terminal and without a network."""
        return self.start(*arguments, cwd=cwd).wait()

    def start(
        self, *arguments: str, cwd: Path, die_at: int = 0, edit: Path | None = None
    ) -> "Running":
        """Start `scaffolder` in a fork of a process that has imported everything."""
        server = _SERVERS.get(self.home)
        if server is None:
            server = _SERVERS[self.home] = subprocess.Popen(
                [*OFFLINE, sys.executable, str(SERVER)],
                env=self.env, cwd=self.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        out, err = self.home / "out", self.home / "err"
        request = {"arguments": arguments, "cwd": str(cwd), "out": str(out),
                   "err": str(err), "die_at": die_at, "edit": str(edit or "")}  # fmt: skip
        assert server.stdin is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        return Running(server, _number(server), out, err)


@dataclass(frozen=True, slots=True)
class Running:
    """A command that was started."""

    server: "subprocess.Popen[bytes]"
    pid: int
    out: Path
    err: Path

    def wait(self) -> Run:
        """Return how it ended."""
        code = _number(self.server)
        out, err = (file.read_bytes().decode(errors="replace") for file in (self.out, self.err))
        return Run(code, out, err)


_SERVERS: "dict[Path, subprocess.Popen[bytes]]" = {}


def _number(server: "subprocess.Popen[bytes]") -> int:
    assert server.stdout is not None
    return int(server.stdout.readline())


@pytest.fixture(scope="session", autouse=True)
def _servers() -> Iterator[None]:
    yield
    for server in _SERVERS.values():
        server.communicate(timeout=10)


def make_tool(folder: Path, versions: dict[str, Files], *, version: str | None = None) -> Tool:
    """Write a tool; its own version is the last one, sealed unless it is a development version."""
    home = folder / "home"
    home.mkdir(parents=True)
    shutil.copytree(
        ROOT / "scaffolder", folder / "scaffolder", ignore=shutil.ignore_patterns("__pycache__")
    )
    own = version or list(versions)[-1]
    (folder / "scaffolder" / "__init__.py").write_text(f'"""Tool."""\n\n__version__ = "{own}"\n')
    (folder / "releases").mkdir()
    for name, files in versions.items():
        if ".dev" not in name:
            archive = folder / "releases" / f"{name}.tar.gz"
            archive.write_bytes(packing.seal(packed(files)))
    packing.unpack(packed(list(versions.values())[-1]), folder)
    return Tool(folder, home)


@dataclass(frozen=True, slots=True)
class Project:
    """A project in a repository, made by the first version."""

    root: Path
    tool: Tool

    def git(self, *arguments: str, cwd: Path | None = None, ok: tuple[int, ...] = (0,)) -> str:
        """Run git and return its output."""
        done = subprocess.run(
            ["git", "-c", "user.name=owner", "-c", "user.email=owner@localhost", *arguments],
            cwd=cwd or self.root, env=self.tool.env, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode in ok, done.stderr.decode()
        return done.stdout.decode(errors="surrogateescape")

    def path(self, name: str) -> Path:
        """Return a path of the project."""
        return self.root / name

    def read(self, name: str) -> bytes:
        """Return a file of the work tree."""
        return (self.root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """Write a file into the work tree."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def replace(self, name: str, old: str, new: str) -> None:
        """Replace a text in a file; it must be there."""
        data = self.read(name)
        assert old.encode() in data
        self.write(name, data.replace(old.encode(), new.encode()))

    def commit(self) -> None:
        """Commit everything that is not ignored."""
        self.git("add", "--all")
        self.git("commit", "-q", "-m", "owner's work")

    def upgrade(self, *arguments: str, cwd: Path | None = None) -> Run:
        """Run `scaffolder upgrade` in the project."""
        return self.tool.run("upgrade", *arguments, cwd=cwd or self.root)

    def unmerged(self) -> dict[str, set[int]]:
        """Return the stages of every path in conflict."""
        found: dict[str, set[int]] = {}
        for line in self.git("ls-files", "--unmerged", "-z").split("\0")[:-1]:
            about, _, path = line.partition("\t")
            found.setdefault(path, set()).add(int(about.split()[2]))
        return found

    def snapshot(self) -> dict[str, tuple[str, int, bytes]]:
        """Return every file of the work tree, tracked or not: kind, permissions, content."""
        return snapshot(self.root)


def snapshot(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Return every file below a folder but git's own."""
    found = {}
    for folder, names, files in os.walk(root):
        if ".git" in names:
            names.remove(".git")
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        for name in [*files, *links]:
            path = Path(folder) / name
            if path.is_symlink():
                value = ("link", 0, os.fsencode(path.readlink()))
            else:
                value = ("file", path.stat().st_mode & 0o777, path.read_bytes())
            found[path.relative_to(root).as_posix()] = value
    found.pop(".git", None)
    return found


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """The tool at version 2.0.0, which also carries 1.0.0."""
    return make_tool(tmp_path_factory.mktemp("tool"), {"1.0.0": FIRST, "2.0.0": SECOND})


@pytest.fixture(scope="session")
def pristine(tool: Tool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of version 1.0.0 that nobody touched."""
    folder = tmp_path_factory.mktemp("pristine")
    made = tool.run(
        "new", "shop", "--yes", "--no-install", "--template-version", "1.0.0", cwd=folder
    )
    assert made.code == 0, made.err
    return folder / "shop"


@pytest.fixture
def project(tool: Tool, pristine: Path, tmp_path: Path) -> Project:
    """A project of version 1.0.0 to be edited."""
    root = tmp_path / "shop"
    shutil.copytree(pristine, root, symlinks=True)
    made = Project(root, tool)
    made.git("status")
    return made
