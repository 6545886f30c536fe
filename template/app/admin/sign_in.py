"""Sign in by link, sign out, and the files that every page needs.

    my-app admin link --> GET /admin/sign-in?token=… --303--> /admin/parked

Invariant: the token is used up by the first GET and leaves the address by redirect, so it stays in
no history, referrer or log. A browser that only looks ahead (prefetch) must not use it up.
"""

from typing import Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from app.admin.gate import COOKIE, OPEN, AnyRequest, session_cookie
from app.admin.html import HEADERS, HERE, page, redirect
from app.api.audit import audit
from app.api.signin import end_session, find_session, redeem_token
from app.config import Settings
from app.db.engine import Database

START = "/admin/parked"
_ASSETS = {"admin.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}


@get("/sign-in", opt=OPEN)
async def sign_in(
    request: AnyRequest,
    database: NamedDependency[Database],
    settings: NamedDependency[Settings],
    token: FromQuery[str] = "",
) -> Response[Any]:
    """Redeem a link: a new session, its cookie, and on to the list."""
    if "prefetch" in request.headers.get("sec-purpose", request.headers.get("purpose", "")):
        return Response(None, status_code=503, headers=HEADERS)
    known = request.cookies.get(COOKIE, "")
    async with database.transaction() as session:
        session_id = await redeem_token(session, token) if token else None
        if session_id is not None:
            await end_session(session, known)
            await audit(session, "admin", "admin.sign_in", "session")
        elif await find_session(session, known) is not None:
            return redirect(START)  # the link was opened twice
    if session_id is None:
        return _refused(request, token)
    response = redirect(START)
    response.set_cookie(session_cookie(settings, session_id))
    return response


def _refused(request: AnyRequest, token: str) -> Response[Any]:
    if not token:
        detail = "There is no password: each sign-in takes a new link."
        return page(request, "signed_out.html", title="You are not signed in", detail=detail)
    title = "This link does not work any more"
    detail = "A link works once and for ten minutes: it was used, is too old, or is not complete."
    return page(request, "signed_out.html", status=401, title=title, detail=detail)


@post("/sign-out")
async def sign_out(
    request: AnyRequest,
    database: NamedDependency[Database],
    settings: NamedDependency[Settings],
) -> Response[Any]:
    """End the session here and in the browser."""
    async with database.transaction() as session:
        await end_session(session, request.cookies.get(COOKIE, ""))
    response = redirect("/admin/sign-in")
    response.set_cookie(session_cookie(settings, ""))
    return response


@get("/")
async def start() -> Response[Any]:
    """The pages begin at the list."""
    return redirect(START)


@get(["/admin.css", "/icon.svg"], opt=OPEN, sync_to_thread=False)
def asset(request: AnyRequest) -> Response[bytes]:
    """A file of `static/`; the two names are the only ones there are."""
    name = request.scope["path"].rpartition("/")[2]
    content = (HERE / "static" / name).read_bytes()
    return Response(content, media_type=_ASSETS[name], headers=HEADERS)


ROUTES = (sign_in, sign_out, start, asset)
