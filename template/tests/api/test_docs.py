"""The OpenAPI document is true, and `/docs` works without internet."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.api.docs import PAGE
from app.config import Settings
from tests.conftest import settings_for
from tests.support.site import Site, opened

METHODS = ("get", "post", "put", "patch", "delete")
REFERENCE = re.compile(r"""(?:href|src|url)\s*[=:]\s*["']([^"']+)["']""")


@pytest.fixture
def settings(sqlite_url: str) -> Settings:
    """The document does not depend on the database."""
    return settings_for(sqlite_url)


async def document(site: Site) -> dict[str, Any]:
    """`/schema/openapi.json`."""
    answer = await site.client.get("/schema/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return dict(answer.json())


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Path, method and operation of everything in the document."""
    return [
        (path, method, item[method])
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]


async def test_the_document_lists_every_route_that_takes_a_key(site: Site):
    """What is not in it: documentation, metrics and pages for people."""
    found = set((await document(site))["paths"])
    hidden = ("/docs", "/schema", "/metrics", "/admin")
    routes = {route.path_format for route in site.app.routes}
    assert {path for path in routes if not path.startswith(hidden)} == found


async def test_the_document_has_the_same_order_at_every_start(site: Site):
    """So that two versions of it can be compared."""
    assert list((await document(site))["paths"]) == sorted((await document(site))["paths"])


async def test_every_error_is_documented_as_problem_json(site: Site):
    """RFC 9457, and no error in the framework's own form."""
    for path, method, operation in operations(await document(site)):
        errors = {c: r for c, r in operation["responses"].items() if c >= "400"}
        assert {"500", "503"} <= set(errors), (path, method)
        for answer in errors.values():
            assert list(answer["content"]) == ["application/problem+json"], (path, method)
        if not path.startswith("/health"):
            assert {"401", "403"} <= set(errors)
            assert operation["security"] == [{"apiKey": []}]


async def test_every_request_body_says_that_unknown_fields_are_refused(site: Site):
    """`additionalProperties: false`, in unions too."""
    whole = await document(site)
    schemas = whole["components"]["schemas"]
    seen = 0
    for path, method, operation in operations(whole):
        if "requestBody" not in operation:
            continue
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        for member in schema.get("oneOf", [schema]):
            name = member["$ref"].rpartition("/")[2]
            assert schemas[name]["additionalProperties"] is False, (path, method, name)
            seen += 1
    assert seen >= 4


async def test_every_reference_in_the_document_leads_somewhere(site: Site):
    """No `$ref` to a schema that is missing."""
    answer = await site.client.get("/schema/openapi.json")
    schemas = answer.json()["components"]["schemas"]
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.text))
    assert names <= set(schemas)


async def test_the_page_loads_only_from_this_server_and_everything_it_loads_is_there(site: Site):
    """No other host in the page; each reference is served; the policy forbids the rest."""
    page = await site.client.get("/docs")
    assert page.text == PAGE
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    start = (await site.client.get("/docs/start.js")).text
    references = REFERENCE.findall(page.text) + REFERENCE.findall(start)
    assert len(references) >= 5
    for reference in references:
        assert urlsplit(reference).netloc == "", reference
        assert (await site.client.get(reference)).status_code == 200, reference
    assert "://" not in page.text + start


async def test_no_other_file_can_be_named(site: Site):
    """The assets are a list, not a folder."""
    for name in ("index.html", "..%2F__init__.py", "__init__.py", "swagger-ui.css.map", "%00"):
        assert (await site.client.get(f"/docs/{name}")).status_code == 404


@pytest.mark.parametrize("path", ["/schema/nothing", "/schema/x.json"])
async def test_an_unknown_address_below_schema_is_a_problem_too(site: Site, path: str):
    """Not the framework's own page."""
    async with opened(site.database.settings) as other:
        answer = await other.client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
