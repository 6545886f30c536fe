"""Liveness and readiness, and who may read the metrics."""

import pytest

from app.config import Settings
from app.db.migrate import downgrade, head_revision, upgrade
from tests.conftest import settings_for
from tests.support.site import Site, opened


async def test_a_fresh_application_is_live_and_ready(site: Site):
    """Without a key, without a relay."""
    for path in ("/health/live", "/health/ready"):
        answer = await site.client.get(path)
        assert answer.status_code == 200
        assert answer.json() == {"status": "ok"}


@pytest.mark.skipif(
    head_revision() == "0001", reason="this project has one migration: none can be missing"
)
async def test_a_schema_that_is_behind_is_not_ready(site: Site):
    """503 with the command; live all the same; ready again after the upgrade."""
    await downgrade(site.database, "0001")
    answer = await site.client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"]
    assert "db upgrade" in answer.json()["hint"]
    assert (await site.client.get("/health/live")).status_code == 200
    await upgrade(site.database)
    assert (await site.client.get("/health/ready")).status_code == 200


async def test_metrics_need_an_operators_key_unless_they_are_public(settings: Settings):
    """They count all tenants together; APP_METRICS_PUBLIC opens them."""
    async with opened(settings) as site:
        assert (await site.client.get("/metrics")).status_code == 401
        tenants = await site.headers("read", "acme")
        assert (await site.client.get("/metrics", headers=tenants)).status_code == 403
        headers = await site.headers("read")
        answer = await site.client.get("/metrics", headers=headers)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
    public = settings_for(settings.database_url, APP_METRICS_PUBLIC="true")
    async with opened(public) as site:
        assert (await site.client.get("/metrics")).status_code == 200
