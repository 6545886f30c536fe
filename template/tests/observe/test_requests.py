"""What a request leaves behind: an id, one log line, one observation; never its content."""

import json
import logging
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from app.config import Settings
from app.ids import uuid7
from app.observe.logging import configure_logging
from app.observe.tracing import adopted, current_traceparent
from tests.conftest import settings_for
from tests.support.site import Site

SECRET = "hunter2-very-secret"


@pytest.fixture
def settings(sqlite_url: str) -> Settings:
    """Nothing here depends on the database."""
    return settings_for(sqlite_url)


async def test_a_request_is_logged_once_with_its_route_and_without_its_content(site: Site):
    """Method, pattern, status, duration, id; no query, header value or body."""
    headers = await site.headers("admin")
    with capture_logs() as lines:
        answer = await site.client.post(
            f"/api/messages/{uuid7()}/dismiss?token={SECRET}",
            json={"reason": SECRET},
            headers=headers | {"X-Secret": SECRET, "Cookie": f"session={SECRET}"},
        )
    (line,) = [line for line in lines if line["event"] == "request"]
    assert line["method"] == "POST"
    assert line["route"] == "/api/messages/{message_id}/dismiss"
    assert line["status"] == 404
    assert line["duration_ms"] > 0
    assert line["request_id"] == answer.headers["x-request-id"]
    whole = repr(lines)
    assert SECRET not in whole
    assert headers["Authorization"].removeprefix("Bearer ") not in whole


async def test_unknown_addresses_and_methods_are_one_series_each(site: Site):
    """A scanner can't fill the memory of the metrics; the line has no path either."""
    with capture_logs() as lines:
        for n in range(5):
            await site.client.get(f"/scan-{n}?{SECRET}")
        await site.client.request("BREW", "/scan")
    assert {line["route"] for line in lines} == {"(unknown)"}
    assert "scan" not in repr(lines)
    headers = await site.headers("read")
    page = (await site.client.get("/metrics", headers=headers)).text
    assert 'count{method="GET",route="(unknown)",status="404"} 5.0' in page
    assert 'method="BREW"' not in page


async def test_metrics_are_labelled_by_route_pattern(site: Site):
    """Fifty ids are one series."""
    headers = await site.headers("read")
    for _ in range(50):
        await site.client.get(f"/api/messages/{uuid7()}", headers=headers)
    page = (await site.client.get("/metrics", headers=headers)).text
    label = 'count{method="GET",route="/api/messages/{message_id}",status="404"} 50.0'
    assert f"http_request_duration_seconds_{label}" in page
    assert page.count("http_request_duration_seconds_count{") == 1


async def test_no_metric_has_the_name_of_another_ones_creation_time(site: Site):
    """The client library adds `<name>_created` to every counter."""
    headers = await site.headers("read")
    page = (await site.client.get("/metrics", headers=headers)).text
    families = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert families
    assert len(families) == len(set(families))
    assert not any(name.endswith("_created_total") for name in families)


def test_in_production_every_line_is_json_also_those_of_libraries(
    restored_logging: None, capfd: pytest.CaptureFixture[str]
):
    """One object per line on stderr; a traceback shows no local variable."""
    import structlog

    configure_logging(settings_for("sqlite+aiosqlite://", APP_ENV="production",
                                   APP_ALLOW_PRIVATE_TARGETS="false"))  # fmt: skip
    structlog.get_logger("app.test").info("hello", number=1)
    logging.getLogger("some.library").warning("from %s", "a library")
    logging.getLogger("httpx").info("GET http://example.test/?token=secret")
    try:
        password = SECRET
        raise RuntimeError("broken" if password else "")
    except RuntimeError as error:
        structlog.get_logger("app.test").error("failed", exc_info=error)
    out, err = capfd.readouterr()
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["event"] for line in lines] == ["hello", "from a library", "failed"]
    assert lines[0] | {"level": "info", "logger": "app.test", "number": 1} == lines[0]
    assert "RuntimeError" in lines[2]["exception"]
    assert SECRET not in err


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Logging is global: put it back."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def test_a_trace_is_current_only_inside_the_request():
    """Adopted from a valid header, gone afterwards; a malformed one is none."""
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with adopted(good):
        assert current_traceparent() == good
    assert current_traceparent() is None
    for bad in ("", "00-xyz", good.upper() + "x", "ff" + good[2:], None):
        with adopted(bad):
            assert current_traceparent() is None
