"""Nobody passes without a session, and no form passes that our page did not send.

On SQLite only: what differs between databases is in `test_signin.py` and `test_pages.py`.
"""

from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie

import pytest
from sqlalchemy import func, select, update

from app.admin.gate import COOKIE
from app.api.signin import LINK_SECONDS, SESSION_SECONDS
from app.api.tables import admin_sessions
from app.config import Settings
from app.db.engine import Database
from tests.admin.conftest import Client
from tests.admin.site import (
    CSRF,
    add_endpoint,
    audited,
    new_link,
    opened,
    park,
    press,
    sign_in,
    status_of,
)
from tests.conftest import settings_for

ID = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url


async def _sessions(database: Database) -> int:
    async with database.read() as session:
        count = await session.scalar(select(func.count()).select_from(admin_sessions))
    return count or 0


async def test_the_link_signs_in_and_leaves_the_address(
    stranger: Client, database: Database
) -> None:
    """The answer to the link is a redirect without the token."""
    answer = await stranger.get(await new_link(database))
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/parked")
    assert (await stranger.get("/admin/parked")).status_code == 200
    assert await audited(database) == [("admin", "admin.sign_in", "session", {})]


async def test_a_used_link_opens_nothing_for_another_browser(
    settings: Settings, stranger: Client, database: Database
) -> None:
    """A one-time link: the second browser gets 401, no cookie and the way to a new link."""
    link = await new_link(database)
    assert (await stranger.get(link)).status_code == 303
    async with opened(settings) as other:
        answer = await other.get(link)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "admin link" in answer.text
        assert (await other.get("/admin/parked")).status_code == 401


async def test_the_same_link_twice_in_one_browser_is_no_error(
    person: Client, database: Database
) -> None:
    """Somebody who is signed in and opens an old link goes on to the list."""
    link = await new_link(database)
    await person.get(link)
    answer = await person.get(link)
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/parked")


async def test_a_link_that_is_too_old_is_refused(stranger: Client, database: Database) -> None:
    """Ten minutes after it was made it opens nothing."""
    made = datetime.now(UTC) - timedelta(seconds=LINK_SECONDS + 1)
    answer = await stranger.get(await new_link(database, made))
    assert answer.status_code == 401
    assert await _sessions(database) == 0


@pytest.mark.parametrize("header", ["sec-purpose", "purpose"])
async def test_a_prefetch_does_not_use_up_the_link(
    stranger: Client, database: Database, header: str
) -> None:
    """A browser that looks ahead gets nothing; the click after it gets in."""
    link = await new_link(database)
    assert (await stranger.get(link, headers={header: "prefetch"})).status_code == 503
    assert (await stranger.head(link)).status_code == 405
    assert (await stranger.get(link)).status_code == 303


async def test_a_session_ends_after_twelve_hours(person: Client, database: Database) -> None:
    """An old session is as good as none."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with database.transaction() as session:
        await session.execute(update(admin_sessions).values(expires_at=past))
    assert (await person.get("/admin/parked")).status_code == 401


async def test_an_id_that_the_client_chose_is_never_adopted(
    stranger: Client, database: Database
) -> None:
    """Fixation: whatever cookie a browser brings along, sign-in makes a fresh id."""
    stranger.cookies.set(COOKIE, "planted", path="/admin")
    answer = await stranger.get(await new_link(database))
    issued = SimpleCookie(answer.headers["set-cookie"])[COOKIE].value
    assert issued != "planted"
    assert len(issued) == 43
    planted = await stranger.get("/admin/parked", headers={"cookie": f"{COOKIE}=planted"})
    assert planted.status_code == 401


async def test_signing_in_again_changes_the_id_and_ends_the_old_session(
    person: Client, database: Database
) -> None:
    """One browser has one session; the id before it opens nothing."""
    before = dict(person.cookies)[COOKIE]
    await sign_in(person, database)
    assert dict(person.cookies)[COOKIE] != before
    assert await _sessions(database) == 1


async def test_signing_out_ends_the_session_on_the_server(
    settings: Settings, person: Client, database: Database
) -> None:
    """A copy of the cookie is worthless afterwards."""
    copied = dict(person.cookies)[COOKIE]
    answer = await press(person, "/admin/sign-out")
    assert answer.headers["location"] == "/admin/sign-in"
    assert (await person.get("/admin/sign-in")).status_code == 200
    async with opened(settings) as other:
        again = await other.get("/admin/parked", headers={"cookie": f"{COOKIE}={copied}"})
        assert again.status_code == 401


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_paths(
    stranger: Client, database: Database
) -> None:
    """HttpOnly, SameSite=Lax, path /admin, twelve hours; not Secure while the address is http."""
    answer = await stranger.get(await new_link(database))
    cookie = SimpleCookie(answer.headers["set-cookie"])[COOKIE]
    assert cookie["httponly"] is True
    assert not cookie["secure"]
    assert (cookie["samesite"], cookie["path"]) == ("lax", "/admin")
    assert int(cookie["max-age"]) == SESSION_SECONDS


async def test_the_cookie_is_secure_when_the_address_is_https(
    sqlite_url: str,
) -> None:
    """`APP_PUBLIC_URL` says how people reach the application."""
    settings = settings_for(sqlite_url, APP_PUBLIC_URL="https://app.example")
    database = Database(settings)
    async with opened(settings) as client:
        answer = await client.get(await new_link(database))
    await database.dispose()
    assert SimpleCookie(answer.headers["set-cookie"])[COOKIE]["secure"] is True


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/admin"),
        ("GET", "/admin/parked"),
        ("GET", f"/admin/parked/{ID}"),
        ("GET", f"/admin/parked/{ID}/retry"),
        ("POST", f"/admin/parked/{ID}/retry"),
        ("POST", f"/admin/parked/{ID}/dismiss"),
        ("POST", "/admin/sign-out"),
    ],
)
async def test_without_a_session_every_page_is_closed(
    stranger: Client, method: str, path: str
) -> None:
    """401 as a page that names the command which makes a link."""
    answer = await stranger.request(method, path)
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert "admin link" in answer.text


async def test_every_route_of_the_pages_is_closed_unless_it_says_open(stranger: Client) -> None:
    """Walks the routes that exist, so that a new one can't be forgotten."""
    open_paths = set()
    for route in stranger.app.routes:
        for handler in getattr(route, "route_handlers", ()):
            if not route.path.startswith("/admin") or "OPTIONS" in handler.http_methods:
                continue
            path = route.path.replace("{message_id:uuid}", ID)
            answer = await stranger.request(next(iter(handler.http_methods)), path)
            if answer.status_code != 401:
                open_paths.add(path)
    assert open_paths == {"/admin/sign-in", "/admin/admin.css", "/admin/icon.svg"}


@pytest.mark.parametrize(
    "path",
    ["/admin/sign-in-x", "/admin/sign-in/x", "/admin/admin.css.bak", "/admin/x/sign-in", "/adminx"],
)
async def test_a_neighbour_of_an_open_path_is_not_open(stranger: Client, path: str) -> None:
    """What is open is a handler, not a pattern."""
    assert (await stranger.get(path)).status_code == 404


async def test_an_api_key_opens_no_page(stranger: Client) -> None:
    """Pages are for people who signed in; whatever a header says is not looked at."""
    answer = await stranger.get("/admin/parked", headers={"Authorization": "Bearer anything"})
    assert answer.status_code == 401


@pytest.mark.parametrize("action", ["retry", "dismiss"])
@pytest.mark.parametrize(
    "form",
    [{}, {"csrf": ""}, {"csrf": "wrong"}, {"csrf": "é"}],
    ids=["none", "empty", "wrong", "é"],
)
async def test_a_form_without_the_sessions_token_changes_nothing(
    person: Client, database: Database, action: str, form: dict[str, str]
) -> None:
    """403, the message stays parked, the audit log stays as it was."""
    message = await park(database, await add_endpoint(database))
    before = await audited(database)
    answer = await person.post(f"/admin/parked/{message}/{action}", data={"reason": "x"} | form)
    assert answer.status_code == 403
    assert await status_of(database, message) == "parked"
    assert await audited(database) == before


async def test_the_token_of_another_session_is_refused(
    settings: Settings, person: Client, database: Database
) -> None:
    """A token belongs to one session."""
    message = await park(database, await add_endpoint(database))
    async with opened(settings) as other:
        found = CSRF.search((await sign_in(other, database)).text)
    assert found is not None
    answer = await person.post(f"/admin/parked/{message}/retry", data={"csrf": found[1]})
    assert answer.status_code == 403
    assert await status_of(database, message) == "parked"


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
    ],
)
async def test_a_form_of_another_site_is_refused_even_with_the_token(
    person: Client, database: Database, headers: dict[str, str]
) -> None:
    """A token that leaked is not enough."""
    message = await park(database, await add_endpoint(database))
    found = CSRF.search((await person.get("/admin/parked")).text)
    assert found is not None
    answer = await person.post(
        f"/admin/parked/{message}/retry", data={"csrf": found[1]}, headers=headers
    )
    assert answer.status_code == 403
    assert await status_of(database, message) == "parked"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "application/json", 400),
        (b"csrf=x", "text/plain", 400),
        (b"a=1&" * 100, "application/x-www-form-urlencoded", 400),
        (b"csrf=%00", "application/x-www-form-urlencoded", 403),
        (b"\xff=1&csrf=x", "application/x-www-form-urlencoded", 400),
        (b"reason=%FF&csrf=x", "application/x-www-form-urlencoded", 400),
        (b"x" * 20_000, "application/x-www-form-urlencoded", 413),
    ],
)
async def test_a_body_that_is_no_form_of_ours_is_refused(
    person: Client, database: Database, content: bytes, kind: str, status: int
) -> None:
    """4xx as a page; never a 500."""
    message = await park(database, await add_endpoint(database))
    answer = await person.post(
        f"/admin/parked/{message}/retry", content=content, headers={"content-type": kind}
    )
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert await status_of(database, message) == "parked"


async def test_a_reason_that_is_no_text_dismisses_nothing(
    person: Client, database: Database
) -> None:
    """Neither stored with replacement characters nor a fault: 400, and it says why."""
    message = await park(database, await add_endpoint(database))
    found = CSRF.search((await person.get("/admin/parked")).text)
    assert found is not None
    answer = await person.post(
        f"/admin/parked/{message}/dismiss",
        content=b"reason=%FF%FE&csrf=" + found[1].encode(),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 400
    assert "not valid UTF-8" in answer.text
    assert await status_of(database, message) == "parked"


async def test_a_form_that_is_too_large_names_its_own_limit(person: Client) -> None:
    """Not the setting for the bodies of the API, which would change nothing here."""
    answer = await person.post(
        f"/admin/parked/{ID}/dismiss",
        content=b"x" * 20_000,
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 413
    assert "16384 bytes" in answer.text
    assert "APP_BODY_LIMIT_BYTES" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/admin/parked",
        "/admin/parked/no-id",
        f"/admin/parked/{ID}",
        "/admin/nothing",
        "/admin/admin.css",
        "/admin/sign-in",
    ],
)
async def test_every_answer_has_the_headers_of_a_closed_page(person: Client, path: str) -> None:
    """No script, no frame, no cache, no referrer, no sniffing; on errors too."""
    headers = (await person.get(path)).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


async def test_no_token_and_no_id_is_logged(
    stranger: Client, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the link's token nor the session's id stands in what the application logs."""
    link = await new_link(database)
    await stranger.get(link)
    await stranger.get("/admin/parked")
    # httpx is the client of this test; it logs what it asks for.
    logged = repr([vars(record) for record in caplog.records if record.name != "httpx"])
    assert "/admin/sign-in" in logged
    assert link.partition("=")[2] not in logged
    assert dict(stranger.cookies)[COOKIE] not in logged
