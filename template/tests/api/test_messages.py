"""`/api/messages`: look, retry, dismiss; every act is audited in the same transaction."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, text, update

from app.api import messages as routes
from app.api.tables import audit_log
from app.ids import uuid7
from app.outbox.tables import outbox_messages
from app.webhooks.tables import endpoints
from tests.support.site import Site

FIELDS = {
    "id", "event_id", "type", "tenant", "destination", "endpoint_id", "status", "attempts",
    "available_at", "parked_reason", "last_error", "created_at", "sent_at",
}  # fmt: skip


async def parked(site: Site, count: int = 1, event_type: str = "some.thing") -> list[str]:
    """Ids of parked messages, each of an event of its own."""
    await site.endpoint(event_type)
    headers = await site.headers("events:write")
    body = {"events": [{"type": event_type, "data": n} for n in range(count)]}
    answer = await site.client.post("/api/events", json=body, headers=headers)
    ids = [UUID(one["id"]) for one in answer.json()["events"]]
    c = outbox_messages.c
    async with site.database.transaction() as session:
        await session.execute(
            update(outbox_messages)
            .where(c.event_id.in_(ids))
            .values(parked_at=c.created_at, parked_reason="rejected", attempts=3)
        )
        found = await session.scalars(select(c.id).where(c.event_id.in_(ids)).order_by(c.id.desc()))
        return [str(one) for one in found]


async def audited(site: Site) -> list[Any]:
    """The audit log."""
    c = audit_log.c
    async with site.database.read() as session:
        rows = await session.execute(select(c.actor, c.action, c.target, c.detail).order_by(c.id))
        return [tuple(row) for row in rows]


async def test_a_list_has_the_documented_fields_and_pages_without_gap_or_repeat(site: Site):
    """`next_cursor` leads through all of them, newest first."""
    ids = await parked(site, 7)
    headers = await site.headers("read")
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": "3"} | ({"cursor": cursor} if cursor else {})
        page = (await site.client.get("/api/messages", params=params, headers=headers)).json()
        assert set(page) == {"items", "next_cursor"}
        assert all(set(item) == FIELDS for item in page["items"])
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ids


async def test_filters_narrow_the_list(site: Site):
    """status, type (a pattern too), endpoint_id, reason."""
    await parked(site, 2, "some.thing")
    other = (await parked(site, 1, "other.thing"))[0]
    headers = await site.headers("read")

    async def count(**params: str) -> int:
        answer = await site.client.get("/api/messages", params=params, headers=headers)
        assert answer.status_code == 200, answer.text
        return len(answer.json()["items"])

    endpoint_id = (await site.client.get(f"/api/messages/{other}", headers=headers)).json()
    assert await count() == 3
    assert await count(type="some.*") == 2
    assert await count(type="other.thing", status="parked") == 1
    assert await count(status="sent") == 0
    assert await count(reason="rejected") == 3
    assert await count(reason="gone") == 0
    assert await count(endpoint_id=endpoint_id["endpoint_id"]) == 1


async def test_one_message_adds_its_log_and_its_body(site: Site):
    """The body is what the receiver gets."""
    (message_id,) = await parked(site)
    headers = await site.headers("read")
    found = (await site.client.get(f"/api/messages/{message_id}", headers=headers)).json()
    assert set(found) == FIELDS | {"ordering_key", "sequence", "waits_for", "attempt_log", "body"}
    assert found["body"]["type"] == "some.thing"
    assert set(found["body"]) == {"type", "timestamp", "data"}


async def test_a_retry_makes_the_message_pending_and_is_audited(site: Site):
    """Same id, attempts go on; the actor is the key."""
    (message_id,) = await parked(site)
    headers = await site.headers("admin")
    answer = await site.client.post(f"/api/messages/{message_id}/retry", headers=headers)
    assert answer.status_code == 200
    assert answer.json()["id"] == message_id
    assert answer.json()["status"] == "pending"
    assert answer.json()["attempts"] == 3
    ((actor, action, target, _),) = await audited(site)
    assert actor.startswith("key:")
    assert (action, target) == ("message.retry", message_id)


async def test_a_message_that_is_not_parked_can_not_be_retried_or_dismissed(site: Site):
    """409 naming the status; no audit entry."""
    (message_id,) = await parked(site)
    headers = await site.headers("admin")
    await site.client.post(f"/api/messages/{message_id}/retry", headers=headers)
    for act, body in (("retry", None), ("dismiss", {"reason": "too late"})):
        answer = await site.client.post(
            f"/api/messages/{message_id}/{act}", json=body, headers=headers
        )
        assert answer.status_code == 409
        assert "pending" in answer.json()["detail"]
    assert len(await audited(site)) == 1


@pytest.mark.parametrize("status", ["disabled", "deleted"])
async def test_a_message_of_a_closed_endpoint_can_not_be_retried(site: Site, status: str):
    """409 with a hint what to do."""
    (message_id,) = await parked(site)
    async with site.database.transaction() as session:
        await session.execute(update(endpoints).values(status=status))
    headers = await site.headers("admin")
    answer = await site.client.post(f"/api/messages/{message_id}/retry", headers=headers)
    assert answer.status_code == 409
    assert status in answer.json()["detail"]
    assert answer.json()["hint"]
    assert await audited(site) == []


async def test_a_dismissal_keeps_its_reason_in_the_audit_log(site: Site):
    """Closed without delivery, by whom and why."""
    (message_id,) = await parked(site)
    headers = await site.headers("admin")
    answer = await site.client.post(
        f"/api/messages/{message_id}/dismiss", json={"reason": "sent by mail"}, headers=headers
    )
    assert answer.json()["status"] == "dismissed"
    ((_, action, target, detail),) = await audited(site)
    assert (action, target, detail) == ("message.dismiss", message_id, {"reason": "sent by mail"})


async def test_many_are_retried_by_filter_and_a_dry_run_changes_nothing(site: Site):
    """`matched` and `retried`; no filter needs `all`."""
    await parked(site, 3, "some.thing")
    await parked(site, 2, "other.thing")
    headers = await site.headers("admin")

    async def retry(**body: Any) -> Any:
        return await site.client.post("/api/messages/retry", json=body, headers=headers)

    assert (await retry()).status_code == 400
    assert (await retry(all=True, dry_run=True)).json() == {"matched": 5, "retried": 0}
    assert await audited(site) == []
    assert (await retry(type="some.*")).json() == {"matched": 3, "retried": 3}
    assert (await retry(all=True)).json() == {"matched": 2, "retried": 2}
    assert [entry[1] for entry in await audited(site)] == ["message.retry"] * 2


async def test_an_act_whose_audit_entry_can_not_be_written_does_not_happen(site: Site):
    """One transaction: no act without an entry."""
    (message_id,) = await parked(site)
    headers = await site.headers("admin")
    async with site.database.transaction() as session:
        await session.execute(text("ALTER TABLE audit_log RENAME TO audit_log_away"))
    answer = await site.client.post(f"/api/messages/{message_id}/retry", headers=headers)
    assert answer.status_code == 500
    found = await site.client.get(f"/api/messages/{message_id}", headers=headers)
    assert found.json()["status"] == "parked"


async def test_an_unknown_message_answers_404(site: Site):
    """For every act."""
    headers = await site.headers("admin")
    for method, act, body in (("GET", "", None), ("POST", "/retry", None),
                              ("POST", "/dismiss", {"reason": "x"})):  # fmt: skip
        path = f"{routes.Messages.path}/{uuid7()}{act}"
        answer = await site.client.request(method, path, json=body, headers=headers)
        assert answer.status_code == 404


async def test_a_filter_by_an_endpoint_that_never_was_answers_404(site: Site):
    """An operator gets no empty list for a mistyped id; that of a deleted endpoint is found."""
    headers = await site.headers("admin")
    unknown = str(uuid7())
    body = {"endpoint_id": unknown, "dry_run": True}
    answers = [
        await site.client.get(f"/api/messages?endpoint_id={unknown}", headers=headers),
        await site.client.post("/api/messages/retry", json=body, headers=headers),
    ]
    for answer in answers:
        assert answer.status_code == 404
        assert unknown in answer.json()["detail"]
        assert "endpoints list" in answer.json()["hint"]
    deleted = await site.endpoint("*", status="deleted")
    found = await site.client.get(f"/api/messages?endpoint_id={deleted}", headers=headers)
    assert (found.status_code, found.json()["items"]) == (200, [])


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/api/messages", "status, type, endpoint_id, tenant, reason, limit, cursor"),
        ("/api/endpoints", "tenant, limit, cursor"),
        ("/api/replays", "limit"),
        ("/api/event-types", "none"),
    ],
)
async def test_a_listing_refuses_a_query_parameter_that_it_does_not_know(
    site: Site, path: str, known: str
):
    """A misspelt filter does not list everything: 422 naming it and the known ones."""
    await parked(site)
    headers = await site.headers("read")
    answer = await site.client.get(f"{path}?statsu=parked", headers=headers)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "'statsu'" in answer.json()["detail"]
    assert answer.json()["detail"].endswith(f"it knows {known}")
    assert (await site.client.get(path, headers=headers)).status_code == 200
    assert (await site.client.get(f"{path}?statsu=parked")).status_code == 401


async def test_a_retry_of_many_takes_no_filter_from_the_address(site: Site):
    """It would be ignored, and everything retried."""
    await parked(site)
    headers = await site.headers("admin")
    answer = await site.client.post(
        "/api/messages/retry?type=none.*", json={"all": True}, headers=headers
    )
    assert answer.status_code == 422
    assert await audited(site) == []
