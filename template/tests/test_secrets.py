"""Secrets stay on the machine: not in git, not in an image, not readable by other users."""

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.db.engine import Database
from tests.conftest import settings_for
from tests.docs.pages import ROOT, exists, read

PRIVATE = (".env", "data/app.db", "data/app.db-wal", ".venv/pyvenv.cfg")
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="file modes are of POSIX systems")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def _git(folder: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=folder, input=given, capture_output=True, text=True, check=False
    )


@needs_git
def test_git_ignores_secrets_and_data(tmp_path: Path) -> None:
    """`git add .` can't take them along."""
    _git(tmp_path, "init", "--quiet")
    (tmp_path / ".gitignore").write_text(read(".gitignore"), encoding="utf-8")
    ignored = _git(tmp_path, "check-ignore", "--stdin", given="\n".join(PRIVATE)).stdout.split()
    assert ignored == list(PRIVATE)
    assert _git(tmp_path, "check-ignore", ".env.example").returncode == 1


@needs_git
@pytest.mark.skipif(not (ROOT / ".env").exists(), reason="there is no .env here to look for")
def test_no_tracked_file_holds_the_secret_key(tmp_path: Path) -> None:
    """The key of `.env` stands in no file that git knows."""
    found = re.search(r"^APP_SECRET_KEY=(.{16,})$", (ROOT / ".env").read_text(), re.MULTILINE)
    if found is None or _git(ROOT, "rev-parse", "--git-dir").returncode != 0:
        pytest.skip("no secret key in .env, or no git repository here")
    hit = _git(ROOT, "grep", "--cached", "-lF", "-f", "-", given=found[1])
    assert (hit.returncode, hit.stdout) == (1, "")


@posix_only
@pytest.mark.skipif(not (ROOT / ".env").exists(), reason="there is no .env here to look at")
def test_only_the_owner_reads_the_settings_file() -> None:
    """`.env` holds the key that opens every endpoint's secret. Repair: chmod 600 .env."""
    assert stat.S_IMODE((ROOT / ".env").stat().st_mode) & 0o077 == 0


@posix_only
async def test_only_the_owner_reads_a_new_database(tmp_path: Path) -> None:
    """A database that starts the application makes has mode 0600, its folder 0700."""
    path = tmp_path / "data" / "app.db"
    database = Database(settings_for(f"sqlite+aiosqlite:///{path}"))
    await database.dispose()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def _in_build_context(path: str) -> bool:
    """Does the image builder get this file? The last matching line of .dockerignore decides."""
    sent = True
    for line in read(".dockerignore").splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        body = re.escape(pattern.lstrip("!").strip("/"))
        body = body.replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        body = body.replace(r"\[", "[").replace(r"\]", "]")
        if re.fullmatch(f"{body}(?:/.*)?", path):
            sent = pattern.startswith("!")
    return sent


@pytest.mark.skipif(not exists(".dockerignore"), reason="this project is without docker files")
def test_an_image_gets_the_application_and_nothing_private() -> None:
    """Only named things go into the build context, so that a forgotten file stays out too."""
    private = (*PRIVATE, ".git/config", "dump.sql", ".env.production", "app/__pycache__/x.pyc")
    assert [path for path in private if _in_build_context(path)] == []
    needed = ("app/config.py", "app/db/engine.py", "pyproject.toml", "constraints.txt", "README.md")
    assert [path for path in needed if not _in_build_context(path)] == []
