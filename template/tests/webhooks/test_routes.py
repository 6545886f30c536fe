"""`/api/endpoints` through the real application: what a client sees, and what is stored."""

from collections.abc import AsyncIterator

import pytest

from app.api.tables import audit_log
from app.config import Settings
from app.ids import uuid7
from app.webhooks.tables import endpoint_secrets, endpoints
from tests.support.receiver import Answer, receiver_in_thread
from tests.support.site import Site, opened

PATH = "/api/endpoints"
GOOD = {"url": "https://example.com/hook", "types": ["order.*"]}


@pytest.fixture
async def site(settings: Settings) -> AsyncIterator[Site]:
    async with opened(settings) as site:
        yield site


async def created(site: Site, headers: dict[str, str], **fields: object) -> dict:
    answer = await site.client.post(PATH, json=GOOD | fields, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_the_life_of_an_endpoint(site: Site):
    """Create, look, change, disable, enable, rotate, delete; each change is audited."""
    admin = await site.headers()
    made = await created(site, admin, description="shop")
    assert made["secret"].startswith("whsec_")
    address = f"{PATH}/{made['id']}"
    shown = (await site.client.get(address, headers=admin)).json()
    assert shown == {k: v for k, v in made.items() if k != "secret"}
    assert shown["status"] == "enabled"
    assert shown["retry"]["kind"] == "exponential"

    body = {
        "types": ["a.b"],
        "timeout_seconds": 5,
        "retry": {"kind": "ladder", "delays_seconds": [60]},
    }
    changed = (await site.client.patch(address, json=body, headers=admin)).json()
    assert (changed["types"], changed["timeout_seconds"]) == (["a.b"], 5.0)
    assert changed["retry"]["delays_seconds"] == [60.0]
    assert changed["description"] == "shop"

    off = (await site.client.post(f"{address}/disable", json={"reason": "x"}, headers=admin)).json()
    assert (off["status"], off["disabled_reason"]) == ("disabled", "x")
    on = (await site.client.post(f"{address}/enable", headers=admin)).json()
    assert (on["status"], on["disabled_at"]) == ("enabled", None)

    body = {"overlap_seconds": 60}
    rotated = (await site.client.post(f"{address}/rotate-secret", json=body, headers=admin)).json()
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != made["secret"]
    assert set(rotated) == {"secret", "old_secret_until"}

    assert (await site.client.delete(address, headers=admin)).status_code == 204
    assert (await site.client.get(address, headers=admin)).json()["status"] == "deleted"
    assert (await site.client.post(f"{address}/enable", headers=admin)).status_code == 409
    assert await site.count(endpoint_secrets) == 0
    assert await site.count(audit_log) == 6


async def test_disable_and_rotate_need_no_body(site: Site):
    """Reason and overlap have defaults."""
    admin = await site.headers()
    address = f"{PATH}/{(await created(site, admin))['id']}"
    disabled = await site.client.post(f"{address}/disable", headers=admin)
    assert (disabled.status_code, disabled.json()["status"]) == (200, "disabled")
    rotated = await site.client.post(f"{address}/rotate-secret", headers=admin)
    assert (rotated.status_code, set(rotated.json())) == (200, {"secret", "old_secret_until"})


BAD_FIELDS = [
    {"url": "file:///etc/passwd"},
    {"url": "http://169.254.169.254/latest/meta-data"},
    {"url": "https://u:p@example.com/"},
    {"url": "https://example.com/" + "a" * 2000},
    {"url": "https://example.com/\x00"},
    {"url": 5},
    {"url": None},
    {"types": []},
    {"types": "order.*"},
    {"types": ["*.paid"]},
    {"types": [""]},
    {"tenant": "x" * 129},
    {"description": "nul \x00"},
    {"timeout_seconds": "5"},
    {"timeout_seconds": 0},
    {"timeout_seconds": 1e9},
    {"retry": {"kind": "linear"}},
    {"retry": {"kind": "ladder", "delays_seconds": []}},
    {"retry": {"kind": "exponential", "attempts": 0}},
    {"retry": {"kind": "exponential", "unknown": 1}},
    {"unknown": 1},
    {"secret": "whsec_mine"},
]


async def test_bad_input_is_a_problem_and_stores_nothing(site: Site):
    """400 as problem+json, for creation and for change."""
    admin = await site.headers()
    good = await created(site, admin)
    for fields in BAD_FIELDS:
        for answer in (
            await site.client.post(PATH, json=GOOD | fields, headers=admin),
            await site.client.patch(f"{PATH}/{good['id']}", json=fields, headers=admin),
        ):
            assert answer.status_code == 400, (fields, answer.text)
            assert answer.headers["content-type"].startswith("application/problem+json")
            assert answer.json()["detail"]
            assert "u:p@" not in answer.text
    assert await site.count(endpoints) == 1
    assert await site.count(audit_log) == 1


async def test_a_tenants_key_makes_and_sees_only_its_own(site: Site):
    """A foreign tenant in the body is 403, a foreign id, filter or cursor 404."""
    operator, acme = await site.headers(), await site.headers(tenant="acme")
    theirs = await created(site, operator, tenant="other")
    mine = await created(site, acme)
    assert mine["tenant"] == "acme"
    answer = await site.client.post(PATH, json=GOOD | {"tenant": "other"}, headers=acme)
    assert answer.status_code == 403
    for query in ("tenant=other", f"cursor={theirs['id']}", "tenant="):
        assert (await site.client.get(f"{PATH}?{query}", headers=acme)).status_code == 404
    for method, end, body in (
        ("GET", "", None),
        ("PATCH", "", {}),
        ("DELETE", "", None),
        ("POST", "/disable", {}),
        ("POST", "/enable", None),
        ("POST", "/test", None),
        ("POST", "/rotate-secret", {}),
    ):
        address = f"{PATH}/{theirs['id']}{end}"
        answer = await site.client.request(method, address, json=body, headers=acme)
        assert answer.status_code == 404, (method, end, answer.text)
    listed = (await site.client.get(PATH, headers=acme)).json()["items"]
    assert [item["id"] for item in listed] == [mine["id"]]


async def test_a_reader_may_look_but_not_change(site: Site):
    """Scope read: GET only."""
    admin, reader = await site.headers(), await site.headers("read")
    made = await created(site, admin)
    address = f"{PATH}/{made['id']}"
    assert (await site.client.get(address, headers=reader)).status_code == 200
    for answer in (
        await site.client.post(PATH, json=GOOD, headers=reader),
        await site.client.patch(address, json={}, headers=reader),
        await site.client.delete(address, headers=reader),
        await site.client.post(f"{address}/test", headers=reader),
    ):
        assert answer.status_code == 403


async def test_lists_page_with_a_cursor(site: Site):
    """Every endpoint once, newest first, and null at the end."""
    admin = await site.headers()
    made = [(await created(site, admin))["id"] for _ in range(5)]
    seen, cursor = [], ""
    while cursor is not None:
        query = f"?limit=2&cursor={cursor}" if cursor else "?limit=2"
        page = (await site.client.get(PATH + query, headers=admin)).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert sorted(seen) == sorted(made)
    unknown = await site.client.get(f"{PATH}?cursor={uuid7()}", headers=admin)
    assert unknown.status_code == 404
    for bad in ("limit=0", "limit=201", "limit=x", "cursor=x"):
        answer = await site.client.get(f"{PATH}?{bad}", headers=admin)
        assert answer.status_code in (400, 404), bad


async def test_a_test_request_is_sent_and_explained(site: Site):
    """The receiver can verify it with the secret of the creation."""
    admin = await site.headers()
    with receiver_in_thread() as receiver:  # the test client blocks this loop while it waits
        made = await created(site, admin, url=receiver.on("/hook", Answer(202)))
        report = (await site.client.post(f"{PATH}/{made['id']}/test", headers=admin)).json()
        assert receiver.requests[0].verify(made["secret"])["type"] == "endpoint.test"
    assert (report["delivered"], report["status_code"]) == (True, 202)
    assert "would be delivered" in report["explanation"]


async def test_the_secret_is_in_no_other_answer_and_no_table_in_clear(site: Site):
    """Neither when shown, listed or changed, nor kept for an Idempotency-Key."""
    admin = await site.headers() | {"Idempotency-Key": "k1"}
    made = await created(site, admin)
    again = await created(site, admin)
    assert again["id"] != made["id"]
    for answer in (
        await site.client.get(PATH, headers=admin),
        await site.client.get(f"{PATH}/{made['id']}", headers=admin),
        await site.client.patch(f"{PATH}/{made['id']}", json={}, headers=admin),
    ):
        assert "whsec_" not in answer.text
