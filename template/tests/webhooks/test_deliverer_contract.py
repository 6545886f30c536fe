"""Webhooks keep the contract that every kind of destination keeps."""

from collections.abc import AsyncIterator

import pytest

from app.outbox.message import Claim
from app.webhooks.deliverer import WebhookDeliverer
from tests.outbox.deliverer_contract import DelivererContract
from tests.support.receiver import Answer, Fault, Receiver
from tests.webhooks.test_deliverer import CIPHER, claim_for, endpoint_at


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
class TestWebhookDeliverer(DelivererContract):
    """Against a real receiver. One database: what differs between the two is tested elsewhere."""

    @pytest.fixture
    async def deliverer(self, database, settings) -> AsyncIterator[WebhookDeliverer]:
        deliverer = WebhookDeliverer(database, CIPHER, settings)
        yield deliverer
        await deliverer.close()

    @pytest.fixture
    async def receiver(self) -> AsyncIterator[Receiver]:
        async with Receiver() as receiver:
            yield receiver

    @pytest.fixture
    async def taken(self, database, settings, receiver) -> Claim:
        made = await endpoint_at(database, settings, receiver.url_for("/taken"))
        return claim_for(made.id)

    @pytest.fixture
    async def refused(self, database, settings, receiver) -> Claim:
        url = receiver.on("/refused", Answer(500))
        return claim_for((await endpoint_at(database, settings, url)).id)

    @pytest.fixture
    async def stalled(self, database, settings, receiver) -> Claim:
        url = receiver.on("/stalled", Answer(fault=Fault.SILENT))
        return claim_for((await endpoint_at(database, settings, url)).id)
