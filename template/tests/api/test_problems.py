"""Faults of our own: 500 without internals, the log under the same id; 503 without a database."""

import json

import pytest
from litestar import get

from app.api.auth import PUBLIC
from app.config import Settings
from app.observe.logging import configure_logging
from tests.conftest import settings_for
from tests.support.postgres import running_server
from tests.support.site import Site, opened

SECRET = "SELECT password FROM users"


async def test_a_fault_answers_500_without_internals_and_logs_them_under_its_id(
    site: Site, capfd: pytest.CaptureFixture[str]
):
    """The client gets an instance; the operator finds the trace under it."""

    @get("/broken", opt=PUBLIC, sync_to_thread=False)
    def broken() -> None:
        raise RuntimeError(SECRET)

    site.app.register(broken)
    configure_logging(site.database.settings)  # once more: to the stderr of this test
    answer = await site.client.get("/broken")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text
    identifier = answer.json()["instance"].removeprefix("urn:uuid:")
    assert answer.headers["x-request-id"] == identifier
    log = capfd.readouterr().err
    assert identifier in log
    assert SECRET in log


async def test_a_database_that_does_not_answer_is_a_503_and_readiness_says_so():
    """Stopped while the application runs; back again, it answers again."""
    with running_server() as server:
        url = server.url.render_as_string(hide_password=False)
        settings = settings_for(url)
        await _migrate(settings)
        async with opened(settings) as site:
            headers = await site.headers("read")
            assert (await site.client.get("/health/ready")).status_code == 200
            server.stop()
            ready = await site.client.get("/health/ready")
            assert ready.status_code == 503
            assert ready.headers["content-type"] == "application/problem+json"
            assert (await site.client.get("/health/live")).status_code == 200
            answer = await site.client.get("/api/messages", headers=headers)
            assert answer.status_code == 503
            assert json.loads(answer.text)["detail"].startswith("The database does not answer")
            server.start()
            assert (await site.client.get("/health/ready")).status_code == 200
            assert (await site.client.get("/api/messages", headers=headers)).status_code == 200


async def _migrate(settings: Settings) -> None:
    from app.db.engine import Database
    from app.db.migrate import upgrade

    database = Database(settings)
    await upgrade(database)
    await database.dispose()
