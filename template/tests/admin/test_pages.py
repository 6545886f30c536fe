"""What a person sees and does: list, filter, page on, look, retry, dismiss."""

import re
from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import select, text, update

from app.admin import parked as pages
from app.admin.words import explain
from app.db.engine import Database
from app.outbox.message import ParkedReason
from app.outbox.tables import outbox_messages
from app.webhooks.tables import endpoints
from tests.admin.conftest import Client
from tests.admin.site import add_endpoint, audited, park, press, status_of

SCRIPT = "<script>alert(1)</script>"
LINKS = re.compile(r'<h2 id="m-[^"]+"><a href="/admin/parked/([^"]+)">')


def _listed(html: str) -> list[UUID]:
    return [UUID(text) for text in LINKS.findall(html)]


async def test_an_empty_list_says_that_all_is_well(person: Client) -> None:
    """Not a blank page."""
    page = await person.get("/admin/parked")
    assert page.status_code == 200
    assert "Nothing is parked." in page.text


async def test_the_list_is_newest_first_and_says_what_happened(
    person: Client, database: Database
) -> None:
    """Type, receiver, reason in words, error, age, attempts and tenant of each."""
    endpoint = await add_endpoint(database)
    older, newer = await park(database, endpoint), await park(database, endpoint)
    page = (await person.get("/admin/parked")).text
    assert _listed(page) == [newer, older]
    for words in (
        "order.paid",
        "https://shop.example/hooks",
        "The receiver refused it.",
        "the receiver answered 404 Not Found",
        "(3 minutes ago)",
        "1 attempt ",
        "acme",
    ):
        assert words in page


async def test_messages_of_every_other_status_are_not_listed(
    person: Client, database: Database
) -> None:
    """Only parked ones wait for a person."""
    endpoint = await add_endpoint(database)
    now = datetime.now(UTC)
    for changes in ({}, {"sent_at": now}, {"parked_at": now, "dismissed_at": now}):
        message = await park(database, endpoint)
        async with database.transaction() as session:
            values = {"parked_at": None} | changes
            await session.execute(
                update(outbox_messages).where(outbox_messages.c.id == message).values(values)
            )
    assert "Nothing is parked." in (await person.get("/admin/parked")).text


async def test_the_filter_narrows_by_type_receiver_and_reason(
    person: Client, database: Database
) -> None:
    """Each alone, and together."""
    one, two = await add_endpoint(database), await add_endpoint(database, "https://two.example/x")
    a = await park(database, one, type="order.paid", reason="rejected")
    b = await park(database, one, type="order.created", reason="exhausted")
    c = await park(database, two, type="order.paid", reason="exhausted")

    async def listed(query: str) -> set[UUID]:
        return set(_listed((await person.get("/admin/parked?" + query)).text))

    assert await listed("type=order.paid") == {a, c}
    assert await listed("type=order.*") == {a, b, c}
    assert await listed(f"endpoint={two}") == {c}
    assert await listed("reason=exhausted") == {b, c}
    assert await listed(f"type=order.created&endpoint={one}&reason=exhausted") == {b}
    assert await listed("type=&endpoint=&reason=") == {a, b, c}
    assert await listed("type=order.refunded") == set()
    page = (await person.get(f"/admin/parked?endpoint={two}")).text
    assert "https://two.example/x (1)" in page
    assert "Show all" in page


async def test_a_filter_that_makes_no_sense_is_a_page_that_says_so(person: Client) -> None:
    """4xx, HTML, the value named and inert."""
    for query in (
        "endpoint=x",
        "reason=x",
        "type=a%00b",
        "type=..",
        "cursor=x",
        "reason=%3Cscript%3E",
        "type=%ff",
    ):
        answer = await person.get("/admin/parked?" + query)
        assert 400 <= answer.status_code < 500, query
        assert answer.headers["content-type"].startswith("text/html")
        assert "<script>" not in answer.text


async def test_a_long_list_has_pages(
    person: Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message stands on exactly one page, the filter goes along."""
    monkeypatch.setattr(pages, "PAGE_SIZE", 2)
    endpoint = await add_endpoint(database)
    ids = [await park(database, endpoint) for _ in range(5)]
    await park(database, endpoint, type="other.type")
    seen: list[UUID] = []
    path = "/admin/parked?type=order.paid"
    for _ in range(3):
        page = (await person.get(path)).text
        seen += _listed(page)
        older = re.search(r'<a href="([^"]+)" rel="next">', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert seen == ids[::-1]
    assert path == ""


async def test_a_message_shows_its_attempts_its_answer_and_its_body(
    person: Client, database: Database
) -> None:
    """All that is needed to decide stands on one page."""
    message = await park(database, await add_endpoint(database))
    page = (await person.get(f"/admin/parked/{message}")).text
    for words in (
        str(message),
        "HTTP 404 Not Found",
        "took 120 ms",
        "Content-Type: text/plain",
        "no such shop",
        "&#34;id&#34;: 7",
        "deleted after 7 days",
    ):
        assert words in page


async def test_every_reason_has_its_page(person: Client, database: Database) -> None:
    """List and message render for each."""
    endpoint = await add_endpoint(database)
    for reason in ParkedReason:
        message = await park(database, endpoint, reason=reason)
        assert explain(reason).title in (await person.get(f"/admin/parked/{message}")).text.replace(
            "&#39;", "'"
        )
    assert len(_listed((await person.get("/admin/parked")).text)) == len(ParkedReason)


async def test_a_message_without_attempts_or_endpoint_has_a_page(
    person: Client, database: Database
) -> None:
    """Attempts may be pruned, endpoints gone, and not every destination is a webhook."""
    message = await park(database, await add_endpoint(database))
    async with database.transaction() as session:
        await session.execute(
            update(outbox_messages).values(destination="handler:mail", last_error=None)
        )
    page = await person.get(f"/admin/parked/{message}")
    assert page.status_code == 200
    assert "handler:mail" in page.text


async def test_retry_makes_it_pending_and_is_audited(person: Client, database: Database) -> None:
    """It leaves the list; the list says where it stands now; the audit log says who."""
    message = await park(database, await add_endpoint(database))
    answer = await press(person, f"/admin/parked/{message}/retry")
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        f"/admin/parked?done={message}",
    )
    assert await status_of(database, message) == "pending"
    assert (await audited(database))[-1] == ("admin", "message.retry", str(message), {})
    page = (await person.get(answer.headers["location"])).text
    assert _listed(page) == []
    assert "It waits for its next attempt" in page


async def test_retry_from_a_filtered_list_goes_back_to_it(
    person: Client, database: Database
) -> None:
    """The filter travels in the form; nothing else that a form says decides where to go."""
    message = await park(database, await add_endpoint(database))
    answer = await press(
        person, f"/admin/parked/{message}/retry", type="order.paid", back="https://evil.example"
    )
    assert answer.headers["location"] == f"/admin/parked?type=order.paid&done={message}"


async def test_dismiss_closes_it_with_a_reason(person: Client, database: Database) -> None:
    """Nothing is sent any more; the reason is in the audit log."""
    message = await park(database, await add_endpoint(database))
    answer = await press(person, f"/admin/parked/{message}/dismiss", reason=" shop has closed ")
    assert answer.status_code == 303
    assert await status_of(database, message) == "dismissed"
    assert (await audited(database))[-1] == (
        "admin",
        "message.dismiss",
        str(message),
        {"reason": "shop has closed"},
    )
    page = (await person.get(answer.headers["location"])).text
    assert "A person dismissed it" in page


async def test_dismiss_without_a_proper_reason_changes_nothing(
    person: Client, database: Database
) -> None:
    """The page comes back, says what is wrong, and keeps what was typed."""
    message = await park(database, await add_endpoint(database))
    before = await audited(database)
    for reason in ("", "   ", "a\0b", "x" * 501):
        answer = await press(person, f"/admin/parked/{message}/dismiss", reason=reason)
        assert answer.status_code == 400
        assert 'role="alert"' in answer.text
        assert reason.strip().partition("\0")[0] in answer.text
    assert await status_of(database, message) == "parked"
    assert await audited(database) == before


@pytest.mark.parametrize("action", ["retry", "dismiss"])
async def test_a_second_press_is_refused_and_writes_nothing(
    person: Client, database: Database, action: str
) -> None:
    """409 naming the status: somebody was faster, or the button was pressed twice."""
    message = await park(database, await add_endpoint(database))
    await press(person, f"/admin/parked/{message}/{action}", reason="done")
    before = await audited(database)
    answer = await press(person, f"/admin/parked/{message}/{action}", reason="done")
    assert answer.status_code == 409
    assert await status_of(database, message) in answer.text
    assert await audited(database) == before


@pytest.mark.parametrize("action", ["retry", "dismiss"])
async def test_an_unknown_message_is_not_found(
    person: Client, database: Database, action: str
) -> None:
    """404 as a page, no audit entry."""
    await park(database, await add_endpoint(database))
    before = await audited(database)
    missing = "01890000-0000-7000-8000-000000000000"
    answer = await press(person, f"/admin/parked/{missing}/{action}", reason="x")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert await audited(database) == before


@pytest.mark.parametrize(
    ("status", "words"),
    [("disabled", "endpoints enable"), ("deleted", "its endpoint is deleted")],
)
async def test_a_message_of_a_closed_endpoint_says_why_it_cannot_be_retried(
    person: Client, database: Database, status: str, words: str
) -> None:
    """No button that would fail; the command that helps; the server refuses all the same."""
    endpoint = await add_endpoint(database, status=status)
    message = await park(database, endpoint, reason=f"endpoint_{status}")
    page = (await person.get(f"/admin/parked/{message}")).text
    assert words in page
    assert ">Retry</button>" not in page
    assert ">Retry</button>" not in (await person.get("/admin/parked")).text
    answer = await press(person, f"/admin/parked/{message}/retry")
    assert answer.status_code == 409
    assert await status_of(database, message) == "parked"


async def test_the_address_of_a_button_shows_the_message(
    person: Client, database: Database
) -> None:
    """GET changes nothing."""
    message = await park(database, await add_endpoint(database))
    for action in ("retry", "dismiss"):
        answer = await person.get(f"/admin/parked/{message}/{action}")
        assert answer.headers["location"] == f"/admin/parked/{message}"
    assert await status_of(database, message) == "parked"


async def test_hostile_content_is_shown_as_text(person: Client, database: Database) -> None:
    """Body, answer, error, type, tenant and URL come from outside."""
    endpoint = await add_endpoint(database, f'https://evil.example/"><b>{SCRIPT}')
    message = await park(
        database,
        endpoint,
        type=f"a{SCRIPT}",
        tenant=f'"{SCRIPT}',
        error=f"error \u202e {SCRIPT}",
        body=b'{"data":"' + SCRIPT.encode() + b'</pre><img src=x onerror=alert(1)>"}',
        answer=b"\xff\xfe" + SCRIPT.encode(),
    )
    for path in ("/admin/parked", f"/admin/parked/{message}", f"/admin/parked?done={message}"):
        page = (await person.get(path)).text
        assert "&lt;script&gt;" in page
        for tag in ("<script", "<img", "<b>a", "\u202e"):
            assert tag not in page


async def test_a_stored_body_that_is_broken_still_has_a_page(
    person: Client, database: Database
) -> None:
    """Whatever an older version or a person with SQL left there."""
    endpoint = await add_endpoint(database)
    for body in (b"", b"\xff\x00", b"[" * 100_000, b'{"a":1e999}', b"9" * 10_000, b"x" * 300_000):
        message = await park(database, endpoint, body=body)
        answer = await person.get(f"/admin/parked/{message}")
        assert answer.status_code == 200, body[:20]
        assert len(answer.text) < 500_000


async def test_secrets_of_an_endpoints_url_are_not_shown(
    person: Client, database: Database
) -> None:
    """No query, no credentials."""
    await add_endpoint(database, "https://u:p@shop.example/h?key=s3cret")
    endpoint = await add_endpoint(database, "https://user:pass@shop.example/h?key=s3cret")
    message = await park(database, endpoint)
    for path in ("/admin/parked", f"/admin/parked/{message}"):
        page = (await person.get(path)).text
        assert "https://shop.example/h?…" in page
        assert "s3cret" not in page
        assert "pass@" not in page


async def test_the_page_sees_every_tenant(person: Client, database: Database) -> None:
    """An admin session is an operator's; each message says whose it is."""
    endpoint = await add_endpoint(database)
    await park(database, endpoint, tenant="acme")
    await park(database, endpoint, tenant="")
    page = (await person.get("/admin/parked")).text
    assert len(_listed(page)) == 2
    assert "no tenant" in page
    async with database.read() as session:
        assert len((await session.execute(select(endpoints.c.id))).all()) == 1


async def test_a_fault_of_our_own_is_a_page_without_internals(
    person: Client, database: Database
) -> None:
    """500: the request's id to look for in the log, no statement, no trace."""
    message = await park(database, await add_endpoint(database))
    async with database.transaction() as session:
        await session.execute(text("DROP TABLE attempts"))
    answer = await person.get(f"/admin/parked/{message}")
    assert answer.status_code == 500
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["x-request-id"] in answer.text
    assert "attempts" not in answer.text.lower()
    assert "SELECT" not in answer.text
