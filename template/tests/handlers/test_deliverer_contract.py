"""Handlers keep the contract that every kind of destination keeps."""

from collections.abc import AsyncIterator

import pytest

from app.handlers.deliverer import HandlerDeliverer
from app.handlers.registry import Handlers
from app.outbox.message import Claim
from tests.handlers.factories import claim_for, recording, refuse, stall
from tests.outbox.deliverer_contract import DelivererContract


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
class TestHandlerDeliverer(DelivererContract):
    """One database: a handler that does nothing there works the same on both."""

    @pytest.fixture
    async def deliverer(self, database, settings) -> AsyncIterator[HandlerDeliverer]:
        take, _ = recording()
        deliverer = HandlerDeliverer(
            database, Handlers.of([take, refuse, stall], settings), settings
        )
        yield deliverer
        await deliverer.close()

    @pytest.fixture
    async def taken(self) -> Claim:
        return claim_for("handler:taken")

    @pytest.fixture
    async def refused(self) -> Claim:
        return claim_for("handler:refused")

    @pytest.fixture
    async def stalled(self) -> Claim:
        return claim_for("handler:stalled")
