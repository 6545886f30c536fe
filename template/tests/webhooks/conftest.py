"""A receiver on loopback, and a deliverer that reads the endpoint before every request."""

from collections.abc import AsyncIterator

import pytest

from app.webhooks.deliverer import WebhookDeliverer
from tests.support.receiver import Receiver
from tests.webhooks.factories import CIPHER


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def deliverer(database, settings) -> AsyncIterator[WebhookDeliverer]:
    """Reads the endpoint before every request, so that a test sees its change at once."""
    deliverer = WebhookDeliverer(database, CIPHER, settings, fresh_seconds=0)
    yield deliverer
    await deliverer.close()
