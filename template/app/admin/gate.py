"""Who may pass: the guard of every admin page, and the check of every form.

    GET  -> signed_in (session cookie) -> handler
    POST -> signed_in -> own_form (csrf token, origin) -> handler

Invariant: deny by default. Both run for every handler of the admin router; one is open only when
its own `opt` says `OPEN` (the sign-in link, the style sheet). A list of open paths would also open
their neighbours. An admin session sees every tenant: it is an operator's.
"""

from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.handlers import BaseRouteHandler

from app.api.signin import SESSION_SECONDS, AdminSession, find_session
from app.config import Settings
from app.db.engine import Database
from app.errors import BadRequest, Forbidden, TooLarge, Unauthorized
from app.program import program

OPEN = {"admin_open": True}
COOKIE = "admin_session"
COOKIE_PATH = "/admin"
FORM_BYTES = 16 * 1024
_FORM_TYPE = "application/x-www-form-urlencoded"
_FORM_FIELDS = 20
_SESSION = "admin_session"  # keys of the connection state
_FORM = "admin_form"
_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))

AnyRequest = Request[Any, Any, Any]
AnyConnection = ASGIConnection[Any, Any, Any, Any]


async def signed_in(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """Let a session's holder pass and remember the session. Raises `Unauthorized`."""
    if handler.opt.get("admin_open"):
        return
    database: Database = connection.app.state.database
    async with database.read() as session:
        found = await find_session(session, connection.cookies.get(COOKIE, ""))
    if found is None:
        raise Unauthorized(
            "These pages need a sign-in, and you are not signed in (any more).",
            hint=f"run: {program()} admin link",
        )
    connection.scope["state"][_SESSION] = found


def session_of(connection: AnyConnection) -> AdminSession | None:
    """The session that `signed_in` found; None on a page that is open."""
    found: AdminSession | None = connection.scope["state"].get(_SESSION)
    return found


async def own_form(request: AnyRequest) -> None:
    """Let a form pass that our own page sent in this session. Raises `Forbidden`, `BadRequest`.

    The token decides. What the browser says about the origin is a second lock: with the referrer
    policy of these pages it sends `Origin: null`, so that value alone proves nothing.
    """
    if request.method in _SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "null")
    foreign = origin != "null" and urlsplit(origin).netloc != request.headers.get("host")
    form = await _read_form(request)
    session = session_of(request)
    token = session.csrf_token if session else ""
    same = compare_digest(form.get("csrf", "").encode(), token.encode())
    if site not in ("same-origin", "none") or foreign or not token or not same:
        raise Forbidden(
            "The form was not sent from a page of this session, so nothing was changed.",
            hint="go back, reload the page, and press the button there",
        )
    request.scope["state"][_FORM] = form


async def _read_form(request: AnyRequest) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise BadRequest(f"The body is {kind or 'nothing'!r}; this address reads {_FORM_TYPE}.")
    try:
        body = (await request.body()).decode()
        return dict(
            parse_qsl(body, keep_blank_values=True, max_num_fields=_FORM_FIELDS, errors="strict")
        )
    except RequestEntityTooLarge:
        raise TooLarge(f"The form is over the limit of {FORM_BYTES} bytes.") from None
    except UnicodeDecodeError:
        raise BadRequest("The form is not valid UTF-8, so nothing was changed.") from None
    except ValueError:
        raise BadRequest(f"The form has more than {_FORM_FIELDS} fields.") from None


def form_field(request: AnyRequest, name: str) -> str:
    """A field of the form that `own_form` let pass, without outer blanks; empty when missing."""
    form: dict[str, str] = request.scope["state"][_FORM]
    return form.get(name, "").strip()


def session_cookie(settings: Settings, session_id: str) -> Cookie:
    """The cookie of a session; an empty id takes the cookie away.

    Lax, not Strict: with Strict a sign-in link opened from another site would end signed out.
    """
    return Cookie(
        key=COOKIE,
        value=session_id,
        path=COOKIE_PATH,
        max_age=SESSION_SECONDS if session_id else 0,
        httponly=True,
        samesite="lax",
        secure=settings.public_url.startswith("https:"),
    )
