"""From an HTTP request to a verified webhook, with the relay where it really runs."""

import asyncio
from typing import Any

import msgspec

from app.config import Settings
from app.wiring import build
from tests.conftest import settings_for
from tests.support.receiver import Answer, Receiver
from tests.support.site import Site, served, until

EVENT = {"type": "some.thing", "data": {"n": 1}}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def subscribed(site: Site, receiver: Receiver, headers: dict[str, str]) -> str:
    """The secret of a new endpoint at the receiver."""
    body = {"url": receiver.url_for("/hook"), "types": ["*"]}
    answer = await site.client.post("/api/endpoints", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["secret"])


async def the_message(site: Site, headers: dict[str, str]) -> Any:
    """The only message there is."""
    (item,) = (await site.client.get("/api/messages", headers=headers)).json()["items"]
    return item


async def test_an_event_arrives_signed_and_its_message_is_sent(settings: Settings):
    """The relay in the server's process: how SQLite and `dev` run."""
    async with Receiver() as receiver, served(settings, with_relay=True) as site:
        headers = await site.headers()
        secret = await subscribed(site, receiver, headers)
        traced = headers | {"traceparent": TRACE}
        taken = (await site.client.post("/api/events", json=EVENT, headers=traced)).json()
        (got,) = await receiver.wait_for(1)
        got.verify(secret)
        assert msgspec.json.decode(got.body)["data"] == {"n": 1}
        assert got.headers["webhook-event-id"] == taken["id"]
        assert got.headers["traceparent"] == TRACE

        async def sent() -> bool:
            return bool((await the_message(site, headers))["status"] == "sent")

        await until(sent)
        page = (await site.client.get("/metrics", headers=headers)).text
        assert 'relay_attempts_total{kind="webhook",outcome="delivered"} 1.0' in page


async def test_a_parked_message_is_retried_over_http_and_arrives_under_the_same_id(
    settings: Settings,
):
    """404 parks at once; mended, the same message goes out again."""
    async with Receiver() as receiver, served(settings, with_relay=True) as site:
        receiver.on("/hook", Answer(404), Answer(200))
        headers = await site.headers()
        await subscribed(site, receiver, headers)
        await site.client.post("/api/events", json=EVENT, headers=headers)

        async def parked() -> bool:
            return bool((await the_message(site, headers))["status"] == "parked")

        await until(parked)
        message = await the_message(site, headers)
        assert message["parked_reason"] == "rejected"
        path = f"/api/messages/{message['id']}"
        assert (await site.client.post(f"{path}/retry", headers=headers)).status_code == 200
        first, second = await receiver.wait_for(2)
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == message["id"]

        async def logged() -> bool:
            found = (await site.client.get(path, headers=headers)).json()
            return bool(found["status"] == "sent")

        await until(logged)
        log = (await site.client.get(path, headers=headers)).json()["attempt_log"]
        assert [(line["number"], line["status_code"]) for line in log] == [(1, 404), (2, 200)]


async def test_a_relay_of_its_own_is_woken_by_the_commit_of_a_server(postgresql_url: str):
    """PostgreSQL, two sets of connections: NOTIFY after COMMIT, not the poll, brings it out."""
    settings = settings_for(postgresql_url, APP_POLL_SECONDS="30")
    components = build(settings)
    relay = components.relay()
    async with Receiver() as receiver, served(settings, with_relay=False) as site:
        running = asyncio.create_task(relay.run())
        try:
            headers = await site.headers()
            secret = await subscribed(site, receiver, headers)
            await site.client.post("/api/events", json=EVENT, headers=headers)
            (got,) = await receiver.wait_for(1)
            got.verify(secret)
        finally:
            relay.stop()
            counts = await running
            await components.close()
    assert counts.delivered == 1


async def test_stopping_the_server_settles_what_its_relay_holds(settings: Settings):
    """A request that is out when the server stops is waited for, and its outcome written."""
    async with Receiver() as receiver:
        receiver.on("/hook", Answer(200, delay_seconds=0.5))
        async with served(settings, with_relay=True) as site:
            headers = await site.headers()
            await subscribed(site, receiver, headers)
            await site.client.post("/api/events", json=EVENT, headers=headers)
            await receiver.wait_for(1)
        async with served(settings, with_relay=False) as site:
            assert (await the_message(site, headers))["status"] == "sent"
