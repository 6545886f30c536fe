"""Projects to run commands in: without anything, with settings, with a migrated database."""

from pathlib import Path

import pytest

from tests.cli.command import SECRET, Project

EXAMPLE = """# Settings for development.
APP_ENV=development
APP_DATABASE_URL=sqlite+aiosqlite:///data/app.db
APP_SECRET_KEY=change-me
APP_ALLOW_PRIVATE_TARGETS=true
"""


@pytest.fixture
def clone(tmp_path: Path) -> Project:
    """A fresh clone: `.env.example`, no `.env`."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / ".env.example").write_text(EXAMPLE)
    return Project(folder)


@pytest.fixture
def fresh(clone: Project) -> Project:
    """With settings, on SQLite, no database yet."""
    text = EXAMPLE.replace("change-me", SECRET)
    path = clone.folder / ".env"
    path.write_text(text)
    path.chmod(0o600)
    return clone


def sqlite_file(url: str) -> Path:
    """The file of a SQLite URL."""
    return Path(url.partition(":///")[2])


@pytest.fixture
def project(fresh: Project, database_url: str) -> Project:
    """With settings and a migrated database, once on SQLite and once on PostgreSQL."""
    if database_url.startswith("sqlite"):
        sqlite_file(database_url).chmod(0o600)
    fresh.variables["APP_DATABASE_URL"] = database_url
    return fresh


@pytest.fixture
def embedded(fresh: Project, sqlite_url: str) -> Project:
    """With settings and a migrated SQLite database."""
    sqlite_file(sqlite_url).chmod(0o600)
    fresh.variables["APP_DATABASE_URL"] = sqlite_url
    return fresh
