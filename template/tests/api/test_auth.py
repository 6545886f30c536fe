"""Who may call what: every route of the application, in one table."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest
from litestar import get
from litestar.routes import HTTPRoute
from sqlalchemy import select, text

from app.api.auth import ACCESS, NEEDS
from app.api.keys import Scope, create_key, revoke_key
from app.api.tables import api_keys
from app.errors import BadRequest
from app.features import present
from app.ids import uuid7
from app.outbox.tables import outbox_messages
from tests.support.site import Site, until

PUBLIC = {
    "/docs", "/docs/{name}", "/health/live", "/health/ready",
    "/.well-known/webhook-keys/{endpoint_id}",
}  # fmt: skip
SCHEMA = {"/schema", "/schema/openapi.json", "/schema/{path}"}
OTHER_GUARD = "/admin/"


@dataclass(frozen=True)
class Route:
    """One method of one address."""

    method: str
    path: str
    access: str | None
    needs: Scope | None

    def at(self, value: UUID) -> str:
        """The address with this value for every parameter."""
        parts = [str(value) if p.startswith("{") else p for p in self.path.split("/")]
        return "/".join(parts)


def routes(site: Site) -> Iterator[Route]:
    """Every route that the application has, except the framework's OPTIONS."""
    for route in site.app.routes:
        assert isinstance(route, HTTPRoute), f"{route.path} has a kind that this test can't see"
        for method, (handler, _) in route.route_handler_map.items():
            if method != "OPTIONS":
                needs = [
                    getattr(guard, NEEDS)
                    for guard in handler.resolve_guards()
                    if hasattr(guard, NEEDS)
                ]
                access = handler.opt.get(ACCESS)
                yield Route(method, route.path_format, access, needs[-1] if needs else None)


def guarded(site: Site) -> list[Route]:
    """The routes that need an API key."""
    return [route for route in routes(site) if route.access is None]


async def test_only_health_documentation_and_the_admin_pages_need_no_key(site: Site):
    """A route is open because its own handler says so; this is the list of those that may."""
    open_ones = {route.path for route in routes(site) if route.access == "public"}
    assert open_ones == PUBLIC | SCHEMA
    others = {route.path for route in routes(site) if route.access not in (None, "public")}
    assert all(path.startswith(OTHER_GUARD) or path == "/admin" for path in others)


async def test_every_other_route_answers_401_without_a_key(site: Site):
    """No key, a wrong one, another scheme: problem+json, told how to authenticate."""
    wrong = [{}, {"Authorization": "Bearer sk_wrong"}, {"Authorization": "Basic c2s6"}]
    wrong += [{"Authorization": "Bearer"}, {"Authorization": "Bearer \xff"}]
    for route in guarded(site):
        for headers in wrong:
            raw = {k: v.encode("latin-1") for k, v in headers.items()}
            answer = await site.client.request(route.method, route.at(uuid7()), headers=raw)
            assert answer.status_code == 401, (route, headers)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"


async def test_every_route_answers_403_to_a_key_of_another_scope(site: Site):
    """`read` can't write, `events:write` can't read; neither is an admin."""
    keys = {scope: await site.headers(scope) for scope in Scope}
    assert len(guarded(site)) >= 16
    for route in guarded(site):
        for scope in (Scope.READ, Scope.EVENTS_WRITE):
            if route.needs == scope:
                continue
            answer = await site.client.request(route.method, route.at(uuid7()), headers=keys[scope])
            assert answer.status_code == 403, (route, scope)
            assert answer.json()["title"] == "Forbidden"


async def test_a_handler_that_says_nothing_needs_scope_admin(site: Site):
    """Forgetting the guard closes a route; it never opens it."""

    @get("/forgotten", sync_to_thread=False)
    def forgotten() -> str:
        return "secret"

    site.app.register(forgotten)
    read, admin = await site.headers("read"), await site.headers("admin")
    assert (await site.client.get("/forgotten")).status_code == 401
    assert (await site.client.get("/forgotten", headers=read)).status_code == 403
    assert (await site.client.get("/forgotten", headers=admin)).text == "secret"


async def test_a_neighbour_of_an_open_address_is_not_open(site: Site):
    """`/docs-x`, `/health/live/x` are unknown, not open."""
    for path in ("/docs-x", "/health/live/x", "/health/livex", "/schema.json", "/docs/x/y"):
        assert (await site.client.get(path)).status_code == 404


async def _belongings(site: Site, tenant: str) -> dict[str, UUID]:
    """One thing of each kind that belongs to a tenant, by the name of its path parameter."""
    endpoint_id = await site.endpoint("*", tenant=tenant)
    headers = await site.headers("admin", tenant)
    body = {"type": "some.thing", "data": {}}
    await site.client.post("/api/events", json=body, headers=headers)
    items = (await site.client.get("/api/messages", headers=headers)).json()["items"]
    times = {"since": "2026-01-01T00:00:00Z", "until": "2126-01-01T00:00:00Z"}
    replay = await site.client.post("/api/replays", json=times, headers=headers)
    things = {
        "endpoint_id": endpoint_id,
        "message_id": UUID(items[0]["id"]),
        "replay_id": UUID(replay.headers["location"].rpartition("/")[2]),
    }
    if "orders" in present():
        order = {"customer": "Ada", "total": "1.00"}
        answer = await site.client.post("/orders", json=order, headers=headers)
        things["order_id"] = UUID(answer.json()["id"])
    return things


BODIES = {
    ("POST", "/api/messages/{message_id}/dismiss"): {"reason": "not needed"},
    ("POST", "/api/endpoints/{endpoint_id}/disable"): {"reason": "mine now"},
    ("POST", "/api/endpoints/{endpoint_id}/rotate-secret"): {"overlap_seconds": 0},
    ("PATCH", "/api/endpoints/{endpoint_id}"): {"description": "mine now"},
}


async def test_every_route_answers_404_for_the_id_of_another_tenant(site: Site):
    """The same answer as for an id that does not exist; and nothing of the owner changes."""
    things = await _belongings(site, "acme")
    before = await _everything(site)
    stranger = await site.headers("admin", "umbrella")
    tried = 0
    for route in guarded(site):
        if "{" not in route.path:
            continue
        path = route.path.format(**things)
        body = BODIES.get((route.method, route.path))
        foreign = await site.client.request(route.method, path, json=body, headers=stranger)
        unknown = await site.client.request(
            route.method, route.at(uuid7()), json=body, headers=stranger
        )
        assert foreign.status_code == unknown.status_code == 404, (route, foreign.text)
        tried += 1
    assert tried >= 11
    assert await _everything(site) == before


async def _everything(site: Site) -> list[object]:
    found: list[object] = []
    async with site.database.read() as session:
        for table in ("outbox_messages", "endpoints", "endpoint_secrets", "audit_log"):
            rows = await session.execute(text(f"SELECT * FROM {table} ORDER BY id"))
            found.append([tuple(row) for row in rows])
    return found


@pytest.mark.parametrize("name", ["tenant", "endpoint_id", "cursor"])
async def test_a_filter_or_cursor_of_another_tenant_answers_404(site: Site, name: str):
    """As if it did not exist; its own tenant may name it."""
    things = await _belongings(site, "acme")
    values = {
        "tenant": "acme",
        "endpoint_id": str(things["endpoint_id"]),
        "cursor": str(things["message_id"]),
    }
    for tenant, expected in (("umbrella", 404), ("acme", 200), ("", 404), (None, 200)):
        answer = await site.client.get(
            "/api/messages",
            params={name: values[name]},
            headers=await site.headers("read", tenant),
        )
        assert answer.status_code == expected, (tenant, answer.text)


async def test_a_tenant_key_lists_only_its_tenant_and_the_empty_tenant_is_one_of_its_own(
    site: Site,
):
    """`''` matches exactly; it is no wildcard."""
    for tenant in ("", "acme"):
        await _belongings(site, tenant)
    for tenant in ("", "acme"):
        headers = await site.headers("read", tenant)
        items = (await site.client.get("/api/messages", headers=headers)).json()["items"]
        assert items
        assert {item["tenant"] for item in items} == {tenant}
    operator = await site.headers("read")
    items = (await site.client.get("/api/messages", headers=operator)).json()["items"]
    assert {item["tenant"] for item in items} == {"", "acme"}


async def test_a_foreign_tenant_in_a_body_answers_403_and_stores_nothing(site: Site):
    """A tenant key can't write for another tenant, an operator can write for any."""
    before = await site.stored()
    body = {"type": "some.thing", "data": {}, "tenant": "acme"}
    for tenant, expected in (("umbrella", 403), ("", 403), ("acme", 201), (None, 201)):
        headers = await site.headers("events:write", tenant)
        answer = await site.client.post("/api/events", json=body, headers=headers)
        assert answer.status_code == expected
        if expected == 403:
            assert await site.stored() == before


async def test_a_retry_of_all_touches_only_the_callers_tenant(site: Site):
    """`all` means all of mine."""
    acme, umbrella = await _belongings(site, "acme"), await _belongings(site, "umbrella")
    async with site.database.transaction() as session:
        await session.execute(
            text("UPDATE outbox_messages SET parked_at = created_at, parked_reason = 'rejected'")
        )
    headers = await site.headers("admin", "acme")
    answer = await site.client.post("/api/messages/retry", json={"all": True}, headers=headers)
    assert answer.json()["retried"] >= 1
    async with site.database.read() as session:
        c = outbox_messages.c
        rows = {row.id: row.status for row in await session.execute(select(c.id, c.status))}
    assert rows[acme["message_id"]] == "pending"
    assert rows[umbrella["message_id"]] == "parked"


async def test_a_revoked_key_is_refused_at_once(site: Site):
    """Revoking needs no restart."""
    async with site.database.transaction() as session:
        key, stored = await create_key(session, "read")
    headers = {"Authorization": f"Bearer {key}"}
    assert (await site.client.get("/api/messages", headers=headers)).status_code == 200
    async with site.database.transaction() as session:
        await revoke_key(session, stored.id)
    assert (await site.client.get("/api/messages", headers=headers)).status_code == 401


async def test_a_key_is_stored_only_as_a_hash_and_recognised_by_its_first_characters(site: Site):
    """A copy of the database opens nothing."""
    async with site.database.transaction() as session:
        key, stored = await create_key(session, "read", description="shop")
        row = (await session.execute(select(api_keys))).one()
    assert key.startswith(stored.prefix)
    assert len(key) >= 46
    assert not any(key in str(value) or key.encode() == value for value in row)


async def test_the_time_of_last_use_is_noted(site: Site):
    """Best effort, beside the request."""
    headers = await site.headers("read")
    await site.client.get("/api/messages", headers=headers)
    await until(lambda: site.count(api_keys, api_keys.c.last_used_at.is_not(None)))


@pytest.mark.parametrize(
    ("scope", "tenant", "description"),
    [("root", None, ""), ("read", "x" * 129, ""), ("read", "a\nb", ""), ("read", None, "x" * 201)],
)
async def test_a_key_that_breaks_a_rule_is_not_made(
    site: Site, scope: str, tenant: str | None, description: str
):
    """Unknown scope, long or unprintable text."""
    async with site.database.transaction() as session:
        with pytest.raises(BadRequest):
            await create_key(session, scope, tenant, description)
