"""What the run needs besides this checkout: the peers' packages, Node 22, nginx.

Packages go into a cache folder, never into .venv. A folder is complete when it holds the text of
what was asked for; anything else is made anew.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 600  # for one installation
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not on everybody's PATH
REFUSE_SERVICES = Path("/usr/sbin/policy-rc.d")


class Unavailable(Exception):
    """Something that the run needs is not there and can't be installed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the programs are."""

    python: Path
    node: Path
    node_folder: Path
    nginx: Path


def home() -> Path:
    """`$BENCH_HOME`, else a folder of the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("BENCH_HOME") or cache / "scaffolder-bench").resolve()


def install() -> Installed:
    """Install what is missing."""
    nginx = _program("nginx", "nginx-light")
    python, node_folder = home() / "python", home() / "node"
    requirements = HERE / "requirements.txt"
    with _once(python, f"{sys.version}\n{requirements.read_text('utf-8')}") as needed:
        if needed:
            _run(sys.executable, "-m", "venv", str(python))
            pip = (str(python / "bin" / "python"), "-m", "pip", "--disable-pip-version-check")
            _run(*pip, "install", "-q", "-r", str(requirements))
    packages = HERE / "package.json"
    with _once(node_folder, packages.read_text("utf-8")) as needed:
        if needed:
            npm = _program("npm", "npm")
            shutil.copy(packages, node_folder)
            quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--no-update-notifier")
            _run(str(npm), "install", "--loglevel=error", *quiet, cwd=node_folder)
    node = node_folder / "node_modules" / "node" / "bin" / "node"
    return Installed(python / "bin" / "python", node, node_folder, nginx)


@contextmanager
def _once(folder: Path, wanted: str) -> Iterator[bool]:
    """Empty the folder and yield true, unless it holds what is wanted already."""
    mark = folder / "installed"
    needed = not mark.is_file() or mark.read_text("utf-8") != wanted
    if needed:
        sys.stderr.write(f"installing into {folder}\n")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    yield needed
    if needed:
        mark.write_text(wanted, "utf-8")


def _run(*command: str, cwd: Path | None = None) -> None:
    """Run it; what it prints goes to stderr, stdout is for the table."""
    try:
        subprocess.run(command, cwd=cwd, stdout=sys.stderr, timeout=SECONDS, check=True)
    except subprocess.SubprocessError as problem:
        raise Unavailable(f"installation failed: {problem}") from problem


def _find(name: str) -> Path | None:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    found = shutil.which(name, path=path)
    return Path(found) if found else None


def _program(name: str, package: str) -> Path:
    """Find a program, else install the system's package when that is possible."""
    found = _find(name)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        from_apt(package)
        found = _find(name)
    if found is None:
        raise Unavailable(f"{name} is not on PATH; install it (Debian: apt-get install {package})")
    return found


def from_apt(package: str) -> None:
    """Install a system's package; a service that comes with it is not started."""
    sys.stderr.write(f"installing {package} with apt-get\n")
    apt = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y")
    with _no_services():
        _run(*apt, "update")
        _run(*apt, "install", "--no-install-recommends", package)


@contextmanager
def _no_services() -> Iterator[None]:
    """Debian's own switch, unless the machine has set it already."""
    if REFUSE_SERVICES.exists():
        yield
        return
    REFUSE_SERVICES.write_text("#!/bin/sh\nexit 101\n", "utf-8")
    REFUSE_SERVICES.chmod(0o755)
    try:
        yield
    finally:
        REFUSE_SERVICES.unlink()
