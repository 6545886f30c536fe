"""`Idempotency-Key`: the same request twice is one event and one answer."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.api import idempotency
from app.api.idempotency import Identity
from app.api.tables import idempotency_keys
from app.config import Settings
from app.outbox.tables import events
from tests.support.site import Site, served

BODY = {"type": "some.thing", "data": {"n": 1}}


def keyed(headers: dict[str, str], key: str = "k-1") -> dict[str, str]:
    """The headers with an Idempotency-Key."""
    return headers | {"Idempotency-Key": key}


async def test_the_second_request_gets_the_first_answer_and_stores_nothing(site: Site):
    """Same status, same bytes, and a header that says so."""
    headers = keyed(await site.headers("events:write"))
    first = await site.client.post("/api/events", json=BODY, headers=headers)
    second = await site.client.post("/api/events", json=BODY, headers=headers)
    assert first.status_code == second.status_code == 201
    assert first.content == second.content
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert await site.count(events) == 1


async def test_without_a_key_two_requests_are_two_events(site: Site):
    """Only the caller knows whether it repeats itself."""
    headers = await site.headers("events:write")
    for _ in range(2):
        await site.client.post("/api/events", json=BODY, headers=headers)
    assert await site.count(events) == 2


async def test_another_body_under_a_used_key_is_refused_by_name(site: Site):
    """422 that names the key; nothing is stored and the first answer stays."""
    headers = keyed(await site.headers("events:write"))
    first = await site.client.post("/api/events", json=BODY, headers=headers)
    other = await site.client.post("/api/events", json=BODY | {"data": 2}, headers=headers)
    assert other.status_code == 422
    assert "k-1" in other.json()["detail"]
    again = await site.client.post("/api/events", json=BODY, headers=headers)
    assert again.content == first.content
    assert await site.count(events) == 1


async def test_the_same_key_of_another_caller_or_tenant_is_another_request(site: Site):
    """Unique on (tenant, API key, method and address, key)."""
    for tenant in (None, None, "acme", ""):
        headers = keyed(await site.headers("events:write", tenant))
        answer = await site.client.post("/api/events", json=BODY, headers=headers)
        assert "idempotent-replayed" not in answer.headers
    assert await site.count(events) == 4


async def test_a_refused_request_leaves_its_key_free(site: Site):
    """A 4xx stores nothing: mended, the request may be sent again under its key."""
    headers = keyed(await site.headers("events:write"))
    refused = await site.client.post("/api/events", json=BODY | {"type": "a b"}, headers=headers)
    assert refused.status_code == 400
    assert await site.count(idempotency_keys) == 0
    assert (await site.client.post("/api/events", json=BODY, headers=headers)).status_code == 201


async def test_a_key_of_255_characters_is_taken(site: Site):
    """The longest one; 256 are refused (see test_bad_input)."""
    headers = keyed(await site.headers("events:write"), "k" * 255)
    assert (await site.client.post("/api/events", json=BODY, headers=headers)).status_code == 201


async def test_the_row_has_the_time_by_which_retention_prunes_it(site: Site):
    """`created_at` is the database's."""
    headers = keyed(await site.headers("events:write"))
    await site.client.post("/api/events", json=BODY, headers=headers)
    async with site.database.read() as session:
        key = await session.scalar(select(idempotency_keys.c.created_at))
        event = await session.scalar(select(events.c.created_at))
    assert abs(key - event) < timedelta(seconds=1)


@pytest.fixture
async def server(settings: Settings) -> AsyncIterator[Site]:
    async with served(settings) as site:
        yield site


async def test_of_requests_at_the_same_time_one_is_carried_out_and_all_get_its_answer(
    server: Site,
):
    """On PostgreSQL the others wait on the unique index, on SQLite for their turn."""
    headers = keyed(await server.headers("events:write"))
    answers = await asyncio.gather(
        *(server.client.post("/api/events", json=BODY, headers=headers) for _ in range(8))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    replayed = [answer for answer in answers if "idempotent-replayed" in answer.headers]
    assert len(replayed) == 7
    assert await server.count(events) == 1


async def test_a_key_that_is_pruned_while_it_is_looked_up_is_free_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    """Between finding that it was used and reading its answer; the request is carried out."""
    headers = keyed(await site.headers("events:write"))
    assert (await site.client.post("/api/events", json=BODY, headers=headers)).status_code == 201
    look = idempotency._kept

    async def pruned_first(session: AsyncSession, identity: Identity):
        monkeypatch.setattr(idempotency, "_kept", look)
        await session.execute(delete(idempotency_keys))
        return await look(session, identity)

    monkeypatch.setattr(idempotency, "_kept", pruned_first)
    answer = await site.client.post("/api/events", json=BODY, headers=headers)
    assert answer.status_code == 201
    assert "idempotent-replayed" not in answer.headers
    assert await site.count(events) == 2
