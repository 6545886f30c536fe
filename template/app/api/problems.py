"""Every error as problem+json (RFC 9457): the last step of a request that went wrong.

    AppError, HTTPException, anything else --handler--> Problem --> application/problem+json

Invariant: a client never sees an internal (a statement, a path, a trace); the log does, under the
request id that the answer's `instance` carries. A feature that shows pages gives an `error_page`
(see `features.py`), which replaces the JSON below its prefix.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap
from msgspec import Struct
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.errors import AppError, RequestError

PROBLEM_JSON = "application/problem+json"
ERROR_PAGES = "error_pages"  # key of the application state: prefix -> ErrorPage
REQUEST_ID = "request_id"  # key of the connection state
HIDDEN = "The request was not carried out. Look for the instance in the log."
STARTING_OR_FULL = ("57P03", "53300")  # PostgreSQL: cannot_connect_now, too_many_connections
UNANSWERED = "The database does not answer; nothing was stored."

logger = structlog.get_logger("app.api")


class FieldProblem(Struct, frozen=True):
    """One rule that the input breaks, and where: `$.total`, `limit`."""

    path: str
    rule: str


class Problem(Struct, frozen=True, omit_defaults=True):
    """What every error looks like on the wire."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    instance: str | None = None
    hint: str | None = None
    errors: tuple[FieldProblem, ...] = ()


AnyRequest = Request[Any, Any, Any]
ErrorPage = Callable[[AnyRequest, int, str, str, str], Response[Any]]
"""(request, status, title, detail, hint) -> a page instead of problem+json"""


def problem_response(
    request: AnyRequest, problem: Problem, headers: Mapping[str, str] | None = None
) -> Response[Any]:
    """The answer for a problem: a page under the prefix of a feature that has one, else JSON."""
    page = _page_for(request)
    if page is not None:
        try:
            return page(request, problem.status, problem.title, problem.detail, problem.hint or "")
        except Exception as error:
            logger.error("error page failed", request_id=request_id(request), exc_info=error)
    content = {"type": problem.type} | _fields(problem)
    return Response(
        content, status_code=problem.status, media_type=PROBLEM_JSON, headers=dict(headers or {})
    )


def _page_for(request: AnyRequest) -> ErrorPage | None:
    pages: Mapping[str, ErrorPage] = request.app.state.get(ERROR_PAGES, {})
    path = request.scope["path"]
    for prefix, page in pages.items():
        if path == prefix or path.startswith(prefix + "/"):
            return page
    return None


def _fields(problem: Problem) -> dict[str, Any]:
    values = {name: getattr(problem, name) for name in problem.__struct_fields__}
    return {name: value for name, value in values.items() if value not in (None, ())}


def request_id(request: AnyRequest) -> str:
    """The id under which the log knows this request."""
    return str(request.scope.get("state", {}).get(REQUEST_ID, ""))


def _instance(request: AnyRequest) -> str | None:
    identifier = request_id(request)
    return f"urn:uuid:{identifier}" if identifier else None


def on_request_error(request: AnyRequest, error: RequestError) -> Response[Any]:
    """The caller's mistake, said in our own words."""
    headers = {"WWW-Authenticate": 'Bearer realm="api"'} if error.status == 401 else {}
    problem = Problem(
        title=error.title,
        status=error.status,
        detail=error.message,
        hint=error.hint or None,
        instance=_instance(request),
    )
    return problem_response(request, problem, headers)


def on_http_exception(request: AnyRequest, error: HTTPException) -> Response[Any]:
    """What the framework refuses: no such route, another method, a parameter that does not fit."""
    if error.status_code >= 500 and error.status_code != 503:
        return on_exception(request, error)
    errors = _field_problems(error.extra)
    title = HTTPStatus(error.status_code).phrase.capitalize()
    detail = "; ".join(f"{e.path}: {e.rule}" for e in errors) or _sentence(request, error)
    problem = Problem(
        title=title,
        status=error.status_code,
        detail=detail,
        instance=_instance(request),
        errors=errors,
    )
    return problem_response(request, problem, error.headers)


def _sentence(request: AnyRequest, error: HTTPException) -> str:
    match error.status_code:
        case 404:
            return "There is nothing at this address."
        case 405:
            return f"This address does not take {request.method}."
        case 413:
            return "The body is over the limit of APP_BODY_LIMIT_BYTES."
        case _:
            return error.detail


def _field_problems(extra: dict[str, Any] | Sequence[Any] | None) -> tuple[FieldProblem, ...]:
    if not isinstance(extra, Sequence):
        return ()
    return tuple(_field_problem(item) for item in extra if isinstance(item, Mapping))


def _field_problem(item: Mapping[str, Any]) -> FieldProblem:
    path = str(item.get("key", "$"))
    rule = str(item.get("message", "is not valid"))
    missing = rule == repr(path)  # what is left of a KeyError
    return FieldProblem("body" if path == "data" else path, "is missing" if missing else rule)


def on_exception(request: AnyRequest, error: Exception) -> Response[Any]:
    """Our own fault, or the database's: 500, or 503 when it does not answer."""
    logger.error("request failed", request_id=request_id(request), exc_info=error)
    unanswered = _is_unanswered(error)
    status = 503 if unanswered else 500
    problem = Problem(
        title=HTTPStatus(status).phrase.capitalize(),
        status=status,
        detail=UNANSWERED if unanswered else HIDDEN,
        instance=_instance(request),
    )
    return problem_response(request, problem, {"Retry-After": "1"} if unanswered else {})


def _is_unanswered(error: Exception) -> bool:
    # Only what surely never began: a connection that breaks during COMMIT may have committed.
    if isinstance(error, DBAPIError):
        code = getattr(error.orig, "sqlstate", None)
        return code in STARTING_OR_FULL or "database is locked" in str(error.orig)
    return isinstance(error, ConnectionRefusedError | PoolTimeout)


def on_app_error(request: AnyRequest, error: AppError) -> Response[Any]:
    """Any other deliberate error is not the caller's: it is logged and hidden like a fault."""
    return on_exception(request, error)


EXCEPTION_HANDLERS: ExceptionHandlersMap = {
    RequestError: on_request_error,
    HTTPException: on_http_exception,
    AppError: on_app_error,
    Exception: on_exception,
}
