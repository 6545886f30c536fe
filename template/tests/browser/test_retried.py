"""The whole way with nothing replaced: relay, receiver, page, retry, delivered."""

import asyncio

import pytest

from app.cipher import Cipher
from app.config import Settings
from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.publish import publish
from app.outbox.views import Message, MessageFilter, list_messages
from app.webhooks.endpoint import EndpointCreate
from app.webhooks.endpoints import create_endpoint
from tests.admin.site import new_link
from tests.support.receiver import Answer, Receiver

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
Page, expect = playwright.Page, playwright.expect


@pytest.fixture
def relays() -> bool:
    return True


async def _message_that_is(data: Database, status: str) -> Message:
    async with asyncio.timeout(20):
        while True:
            async with data.read() as session:
                found = await list_messages(session, MessageFilter())
            if [message.status for message in found.items] == [status]:
                return found.items[0]
            await asyncio.sleep(0.05)


async def test_a_message_parked_by_a_receiver_is_retried_on_the_page_and_arrives(
    page: Page, data: Database, browser_settings: Settings
) -> None:
    """404 parks it; the receiver is mended; a press of a button; the same id arrives."""
    async with Receiver() as receiver:
        url = receiver.on("/hook", Answer(404, b"no such hook"))
        async with data.transaction() as session:
            created = await create_endpoint(
                session,
                Cipher(browser_settings.secret_key),
                browser_settings,
                EndpointCreate(url=url, types=["order.*"]),
                "",
            )
        async with data.transaction() as session:
            await publish(session, Event(type="order.paid", data={"total": "12.50"}))
        message = await _message_that_is(data, "parked")

        await page.goto(await new_link(data))
        await expect(page.get_by_text("The receiver refused it.")).to_be_visible()
        await page.get_by_role("link", name="order.paid").click()
        await expect(page.get_by_text("no such hook")).to_be_visible()
        receiver.on("/hook", Answer(200))
        await page.get_by_role("button", name="Retry").click()
        await _message_that_is(data, "sent")

        await page.get_by_role("status").get_by_role("link").click()
        await expect(page.get_by_text("It was delivered.")).to_be_visible()
        await expect(page.get_by_text("Attempt 2: delivered, HTTP 200 OK")).to_be_visible()
        refused, accepted = receiver.requests
        assert refused.webhook_id == accepted.webhook_id == str(message.id)
        accepted.verify(created.secret)
