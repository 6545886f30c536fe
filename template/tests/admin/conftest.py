"""A client of the real application, signed in or not."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from litestar.testing import AsyncTestClient

from app.config import Settings
from app.db.engine import Database
from tests.admin.site import opened, sign_in

Client = AsyncTestClient[Any]


@pytest.fixture
async def stranger(settings: Settings) -> AsyncIterator[Client]:
    """Nobody: no cookie."""
    async with opened(settings) as client:
        yield client


@pytest.fixture
async def person(stranger: Client, database: Database) -> Client:
    """Somebody who followed a link."""
    response = await sign_in(stranger, database)
    assert response.status_code == 200
    return stranger
