"""`admin link`, where the feature is there."""

import pytest
from sqlalchemy import func, select

from app.api.tables import login_tokens
from tests.cli.command import ROOT, Project, assert_sentence
from tests.cli.seed import audited, in_transaction

HAS_PAGES = (ROOT / "app" / "admin" / "feature.py").exists()


async def tokens(session) -> int:
    return (await session.execute(select(func.count()).select_from(login_tokens))).scalar_one()


@pytest.mark.skipif(not HAS_PAGES, reason="this project has no admin pages")
def test_link_is_the_only_line_on_stdout_and_its_token_is_stored_hashed(project: Project):
    """It begins with APP_PUBLIC_URL."""
    project.variables["APP_PUBLIC_URL"] = "https://shop.example.com/"
    (link,) = project.ok("admin", "link").splitlines()
    head, _, token = link.partition("?token=")
    assert head == "https://shop.example.com/admin/sign-in"
    assert len(token) >= 40
    assert in_transaction(project, tokens) == 1
    assert audited(project)[0][1] == "admin.link"


@pytest.mark.skipif(HAS_PAGES, reason="this project has the admin pages")
def test_link_without_pages_says_so(embedded: Project):
    """Exit 1 naming the feature."""
    assert_sentence(embedded.run("admin", "link"), 1, "no admin pages")
