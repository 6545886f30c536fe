"""Fixtures: a migrated database of its own for each test, on SQLite and on PostgreSQL.

`database` is parametrised: a test that takes it runs on both. Settings never come from the
developer's own environment.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.config import Settings, load_settings
from app.db.engine import Database
from app.db.migrate import upgrade
from tests.support.postgres import new_database, server_url

SECRET = "a-secret-of-the-test-suite-0123456789"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("APP_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[object]:
    with server_url() as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server) -> Iterator[object]:
    with new_database(postgresql_server) as url:
        asyncio.run(_migrate(url.render_as_string(hide_password=False)))
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "app.db"
    asyncio.run(_migrate(f"sqlite+aiosqlite:///{path}"))
    return path


async def _migrate(url: str) -> None:
    database = Database(settings_for(url))
    await upgrade(database)
    await database.dispose()


def settings_for(url: str, **changes: str) -> Settings:
    """Settings of a test: the given database, private targets allowed."""
    values = {
        "APP_ENV": "test",
        "APP_SECRET_KEY": SECRET,
        "APP_ALLOW_PRIVATE_TARGETS": "true",
        "APP_DATABASE_URL": url,
    }
    return load_settings(values | changes)


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    path = tmp_path / "app.db"
    path.write_bytes(sqlite_template.read_bytes())
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
def postgresql_url(postgresql_server, postgresql_template) -> Iterator[str]:
    with new_database(postgresql_server, postgresql_template.database) as url:
        yield url.render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated, empty database; the test runs once on each kind."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def settings(database_url: str) -> Settings:
    return settings_for(database_url)


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    database = Database(settings)
    yield database
    await database.dispose()
