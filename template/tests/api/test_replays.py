"""`/api/replays`: counts, pace, audit, tenants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from app.api import replays as routes
from app.api.tables import audit_log
from app.ids import uuid7
from app.outbox import replay_scan
from app.outbox.replay import step
from app.outbox.tables import outbox_messages, replays
from tests.support.site import Site

RANGE = {"since": "2020-01-01T00:00:00Z", "until": "2120-01-01T00:00:00Z"}
FIELDS = {
    "id", "actor", "since", "until", "tenant", "type", "endpoint_id", "per_second", "matched",
    "created", "skipped", "created_at", "finished_at",
}  # fmt: skip


async def sent(site: Site, count: int, event_type: str = "some.thing", tenant: str = "") -> None:
    """Messages that were delivered."""
    headers = await site.headers("events:write", tenant)
    body = {"events": [{"type": event_type, "data": n} for n in range(count)]}
    await site.client.post("/api/events", json=body, headers=headers)
    async with site.database.transaction() as session:
        values = {"sent_at": outbox_messages.c.created_at}
        await session.execute(update(outbox_messages).values(values))


async def post(site: Site, headers: dict[str, str], **body: Any) -> Any:
    """`POST /api/replays` over everything there is."""
    return await site.client.post("/api/replays", json=RANGE | body, headers=headers)


async def test_a_dry_run_counts_and_a_replay_makes_the_messages(site: Site):
    """200 and 202 with the same three fields; pending ones are skipped the next time."""
    await site.endpoint("*")
    await sent(site, 3)
    headers = await site.headers()
    dry = await post(site, headers, dry_run=True)
    assert (dry.status_code, dry.json()) == (200, {"matched": 3, "created": 0, "skipped": 0})
    assert await site.count(replays) == 0
    assert await site.count(audit_log) == 0
    done = await post(site, headers)
    assert (done.status_code, done.json()) == (202, {"matched": 3, "created": 3, "skipped": 0})
    assert await site.count(outbox_messages, outbox_messages.c.status == "pending") == 3
    again = await post(site, headers)
    assert again.json() == {"matched": 3, "created": 0, "skipped": 3}


async def test_the_replay_can_be_looked_at(site: Site):
    """`Location` names it; the list has the newest first."""
    await site.endpoint("*")
    await sent(site, 1)
    headers = await site.headers()
    first = (await post(site, headers, type="some.*")).headers["location"]
    second = (await post(site, headers, per_second=5)).headers["location"]
    shown = (await site.client.get(first, headers=headers)).json()
    assert set(shown) == FIELDS
    assert (shown["type"], shown["created"]) == ("some.*", 1)
    assert shown["finished_at"] is not None
    assert datetime.fromisoformat(shown["until"]) < datetime.now(UTC) + timedelta(minutes=1)
    listed = (await site.client.get("/api/replays", headers=headers)).json()["items"]
    assert [f"/api/replays/{one['id']}" for one in listed] == [second, first]


async def test_it_is_audited_who_asked_for_what_and_what_came_of_it(site: Site):
    """One entry at the start with the filter, one at the end with the counts."""
    endpoint_id = await site.endpoint("*")
    await sent(site, 2)
    await post(site, await site.headers(), endpoint_id=str(endpoint_id), tenant="")
    a = audit_log.c
    async with site.database.read() as session:
        query = select(a.actor, a.action, a.detail).order_by(a.id)
        start, finish = (await session.execute(query)).all()
    assert start.actor == finish.actor
    assert start.actor.startswith("key:")
    assert (start.action, finish.action) == ("replay.start", "replay.finish")
    assert start.detail["endpoint_id"] == str(endpoint_id)
    assert start.detail["tenant"] == ""
    assert finish.detail == {"matched": 2, "created": 2, "skipped": 0}


async def test_a_tenants_key_replays_its_tenant_and_sees_no_other_replay(site: Site):
    """Foreign tenant, foreign endpoint, foreign replay: 404."""
    mine = await site.endpoint("*", tenant="mine")
    foreign = await site.endpoint("*", tenant="other")
    await sent(site, 2, tenant="mine")
    await sent(site, 3, tenant="other")
    key = await site.headers("admin", "mine")
    assert (await post(site, key)).json() == {"matched": 2, "created": 2, "skipped": 0}
    assert (await post(site, key, endpoint_id=str(mine))).json()["skipped"] == 2
    for body in ({"endpoint_id": str(foreign)}, {"tenant": "other"}, {"tenant": ""}):
        for dry_run in (True, False):
            assert (await post(site, key, dry_run=dry_run, **body)).status_code == 404
    theirs = (await post(site, await site.headers("admin", "other"))).headers["location"]
    assert (await site.client.get(theirs, headers=key)).status_code == 404
    listed = (await site.client.get("/api/replays", headers=key)).json()["items"]
    assert {one["tenant"] for one in listed} == {"mine"}


async def test_what_the_request_does_not_finish_a_relay_does(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    """202 with the counts so far; `finished_at` is null until a relay has done the rest."""
    monkeypatch.setattr(routes, "INLINE_SECONDS", 0.0)
    monkeypatch.setattr(replay_scan, "SCAN", 2)
    await site.endpoint("*")
    await sent(site, 5)
    headers = await site.headers()
    answer = await post(site, headers)
    assert answer.json()["created"] == 2
    location = answer.headers["location"]
    assert (await site.client.get(location, headers=headers)).json()["finished_at"] is None
    while await step(site.database):
        pass
    shown = (await site.client.get(location, headers=headers)).json()
    assert shown["created"] == 5
    assert shown["finished_at"] is not None


async def test_the_same_request_again_is_the_same_replay(site: Site):
    """With an Idempotency-Key; another range under it is refused by name."""
    await site.endpoint("*")
    await sent(site, 2)
    headers = await site.headers() | {"Idempotency-Key": "again-1"}
    first, second = [await post(site, headers) for _ in range(2)]
    assert first.headers["location"] == second.headers["location"]
    assert second.headers["idempotent-replayed"] == "true"
    assert first.json() == second.json()
    assert await site.count(replays) == 1
    other = await post(site, headers, type="other.thing")
    assert other.status_code == 422
    assert "again-1" in other.json()["detail"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"since": "2020-01-01T00:00:00"}, "since"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2019-01-01T00:00:00Z"}, "since"),
        ({"per_second": 0}, "per_second"),
        ({"per_second": "5"}, "per_second"),
        ({"type": "a b"}, "a b"),
        ({"endpoint": "x"}, "endpoint"),
    ],
)
async def test_nonsense_is_refused_and_nothing_is_stored(site: Site, body: Any, says: str):
    """400 naming the field, for a dry run too."""
    headers = await site.headers()
    for dry_run in (True, False):
        answer = await post(site, headers, **body, dry_run=dry_run)
        assert answer.status_code == 400, answer.text
        assert says in answer.json()["detail"]
    assert await site.count(replays) == 0


async def test_an_endpoint_that_gets_nothing_is_a_conflict(site: Site):
    """409 naming its status."""
    headers = await site.headers()
    disabled = await site.endpoint("*", status="disabled")
    answer = await post(site, headers, endpoint_id=str(disabled))
    assert answer.status_code == 409
    assert "disabled" in answer.json()["detail"]
    deleted = await site.endpoint("*", status="deleted")
    answer = await post(site, headers, endpoint_id=str(deleted))
    assert (answer.status_code, "deleted" in answer.json()["detail"]) == (409, True)


async def test_an_endpoint_that_never_was_answers_404(site: Site):
    """It is not called deleted; the hint names the command that lists endpoints."""
    headers = await site.headers()
    unknown = str(uuid7())
    for dry_run in (True, False):
        answer = await post(site, headers, endpoint_id=unknown, dry_run=dry_run)
        assert answer.status_code == 404
        assert unknown in answer.json()["detail"]
        assert "endpoints list" in answer.json()["hint"]
    assert await site.count(replays) == 0
