"""`GET /api/event-types`, and the event types in the OpenAPI document."""

from typing import Any

import msgspec
import pytest

from app.config import Settings
from app.outbox.catalogue import EventType
from app.outbox.subscriptions import is_operator_type
from app.outbox.tables import events
from app.wiring import build
from tests.conftest import settings_for
from tests.support.site import Site


@pytest.fixture
def settings(sqlite_url: str) -> Settings:
    """The listing does not depend on the database."""
    return settings_for(sqlite_url)


@pytest.fixture
def types(settings: Settings) -> dict[str, EventType[Any]]:
    """Every registered type by name, sorted."""
    return dict(build(settings).catalogue.types)


async def test_the_listing_has_every_registered_type(site: Site, types):
    """With a schema and an example that this API takes as data of that type, if anybody may tell
    it.
    """
    headers = await site.headers("admin")
    answer = await site.client.get("/api/event-types", headers=headers)
    assert answer.status_code == 200
    items = answer.json()["items"]
    assert [item["name"] for item in items] == list(types)
    for item in items:
        assert set(item) == {"name", "version", "description", "schema", "example"}
        assert item["schema"]["$ref"].startswith("#/$defs/")
        body = {"type": item["name"], "data": item["example"]}
        taken = await site.client.post("/api/events", json=body, headers=headers)
        assert taken.status_code == (422 if is_operator_type(item["name"]) else 201), taken.text


async def test_data_of_a_registered_type_is_checked_over_http(site: Site, types):
    """400 with the path; nothing is stored."""
    headers = await site.headers("events:write")
    for name in [name for name in types if not is_operator_type(name)]:
        body = {"events": [{"type": "a.b", "data": 1}, {"type": name, "data": {"x": 1}}]}
        answer = await site.client.post("/api/events", json=body, headers=headers)
        assert answer.status_code == 400
        assert answer.json()["detail"].startswith("events[1].data: ")
        assert name in answer.json()["detail"]
    assert await site.count(events) == 0


async def test_a_key_that_may_only_write_can_not_list(site: Site):
    """Scope `read`."""
    headers = await site.headers("events:write")
    assert (await site.client.get("/api/event-types", headers=headers)).status_code == 403


async def test_the_openapi_document_says_what_receivers_get(site: Site, types):
    """One webhook for each type, whose example is an instance of its schema's class."""
    document = (await site.client.get("/schema/openapi.json")).json()
    assert sorted(document["webhooks"]) == list(types)
    for name, item in document["webhooks"].items():
        content = item["post"]["requestBody"]["content"]["application/json"]
        assert content["schema"]["properties"]["type"] == {"const": name}
        reference = content["schema"]["properties"]["data"]["$ref"].rpartition("/")[2]
        assert reference in document["components"]["schemas"]
        msgspec.convert(content["example"]["data"], types[name].data)
