"""A real Chromium and the application behind a real socket; skipped where there is no Chromium."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import uvicorn

from app.config import Settings
from app.db.engine import Database
from app.wiring import create_app
from tests.conftest import settings_for

if TYPE_CHECKING:
    from playwright.async_api import Page

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
DEADLINE_SECONDS = 10


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say in the summary why the browser tests did not run."""
    if CHROMIUM is None:
        for item in items:
            if "browser" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason="chromium is not installed"))


@pytest.fixture
def browser_settings(sqlite_url: str) -> Settings:
    return settings_for(sqlite_url)


@pytest.fixture
async def data(browser_settings: Settings) -> AsyncIterator[Database]:
    """The database that the served application uses."""
    database = Database(browser_settings)
    yield database
    await database.dispose()


@pytest.fixture
def relays() -> bool:
    """Whether the application delivers; a module that wants it overrides this."""
    return False


@pytest.fixture
async def site(browser_settings: Settings, relays: bool) -> AsyncIterator[str]:
    """The address of the running application."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        app = create_app(browser_settings, with_relay=relays)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not server.started:
                assert not serving.done(), "the application did not start"
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        await serving


@pytest.fixture
async def page(site: str) -> AsyncIterator["Page"]:
    """An empty tab. It fails the test when the console says that something was blocked or broke."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        context = await browser.new_context(base_url=site, viewport={"width": 1000, "height": 900})
        context.set_default_timeout(DEADLINE_SECONDS * 1000)
        tab = await context.new_page()
        complaints: list[str] = []
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        yield tab
        await browser.close()
        assert complaints == []
