"""From values to an HTML answer: one function, so that every page has the same headers.

Invariant: autoescape is on for every template, undefined names are errors, and no page runs a
script, loads anything from elsewhere, is framed, cached or tells its address to anybody. Where to
change what: looks in `static/admin.css`, words in `templates/` and `words.py`.
"""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import MediaType, Request, Response
from litestar.response import Redirect

from app.admin import words
from app.admin.gate import session_of
from app.api.problems import request_id
from app.program import program

HERE = Path(__file__).parent
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
AnyRequest = Request[Any, Any, Any]

_environment = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(
    ago=words.ago,
    duration=words.duration_words,
    readable=words.readable,
    status=words.status_words,
    utc=words.utc,
    visible=words.visible,
)


def page(
    request: AnyRequest, template: str, *, status: int = 200, **context: object
) -> Response[Any]:
    """The template with its context, for the person who is signed in (if any)."""
    session = session_of(request)
    body = _environment.get_template(template).render(
        context,
        status=status,
        csrf=session.csrf_token if session else "",
        environment=request.app.state.database.settings.env,
        program=program(),
    )
    return Response(body, status_code=status, media_type=MediaType.HTML, headers=HEADERS)


def redirect(path: str) -> Response[Any]:
    """See other: the browser asks for `path` with GET, so a reload repeats no action."""
    return Redirect(path, status_code=303, headers=HEADERS)


def error_page(
    request: AnyRequest, status: int, title: str, detail: str, hint: str
) -> Response[Any]:
    """What went wrong below `/admin`, in words; `api/problems.py` asks for it."""
    if status == 401:
        return page(request, "signed_out.html", status=401, title="Sign in first", detail=detail)
    trace = request_id(request) if status >= 500 else ""
    return page(
        request, "error.html", status=status, title=title, detail=detail, hint=hint, trace=trace
    )
