"""`site`: the real application on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator

import pytest

from app.config import Settings
from tests.support.site import Site, opened


@pytest.fixture
async def site(settings: Settings) -> AsyncIterator[Site]:
    async with opened(settings) as site:
        yield site
