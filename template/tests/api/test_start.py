"""The application refuses to start on a database that it can't work with."""

from pathlib import Path

import pytest

from app.config import Settings
from app.db.engine import Database
from app.db.migrate import downgrade, head_revision
from app.errors import ConfigError
from app.wiring import build, check_ready_to_start, create_app
from tests.conftest import settings_for
from tests.support.site import opened


async def _refusal(settings: Settings) -> ConfigError:
    components = build(settings)
    try:
        with pytest.raises(ConfigError) as refused:
            await check_ready_to_start(components)
    finally:
        await components.close()
    return refused.value


async def test_an_empty_database_is_refused_with_the_command_that_helps(tmp_path: Path):
    """Not at the first request: at the start."""
    refused = await _refusal(settings_for(f"sqlite+aiosqlite:///{tmp_path}/empty.db"))
    assert "no tables" in refused.message
    assert "db upgrade" in refused.hint


@pytest.mark.skipif(
    head_revision() == "0001", reason="this project has one migration: none can be missing"
)
async def test_a_schema_that_is_behind_is_refused_with_both_revisions(database: Database):
    """It names where the database stands and what the code needs."""
    await downgrade(database, "0001")
    refused = await _refusal(database.settings)
    assert "0001" in refused.message
    assert f"the code needs {head_revision()}" in refused.message


async def test_another_secret_key_is_refused(settings: Settings):
    """It would fail every message; it refuses to start instead."""
    async with opened(settings):
        pass
    url = settings.database_url
    refused = await _refusal(settings_for(url, APP_SECRET_KEY="another-secret-0123456789-abcdefgh"))
    assert "APP_SECRET_KEY" in refused.message


async def test_the_lifespan_refuses_before_the_first_request(tmp_path: Path):
    """A server that is started on an empty database ends with the reason."""
    app = create_app(settings_for(f"sqlite+aiosqlite:///{tmp_path}/empty.db"), with_relay=False)
    with pytest.raises(ExceptionGroup) as refused:
        async with app.lifespan():
            raise AssertionError("it started")
    assert refused.value.subgroup(ConfigError) is not None


def test_importing_the_entry_point_reads_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A server imports `app.asgi` and calls `create`; only that reads the environment."""
    import app.asgi

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="APP_SECRET_KEY"):
        app.asgi.create()
    assert list(tmp_path.iterdir()) == []


async def test_without_any_feature_the_rest_runs(sqlite_url: str, monkeypatch: pytest.MonkeyPatch):
    """Features are found at run time; nothing else needs them."""
    monkeypatch.setattr("app.features.FEATURES", ())
    async with opened(settings_for(sqlite_url)) as site:
        headers = await site.headers()
        assert (await site.client.get("/orders", headers=headers)).status_code == 404
        assert (await site.client.get("/admin/parked")).status_code == 404
        body = {"type": "a.b", "data": 1}
        answer = await site.client.post("/api/events", json=body, headers=headers)
        assert answer.status_code == 201
