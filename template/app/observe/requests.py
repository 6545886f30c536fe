"""The outermost layer of the application: request id, trace, log line, duration.

It wraps routing itself, so that a request to an unknown address is logged and counted like any
other. Invariant: of the address only the route's pattern is logged, never the query; of headers
and bodies nothing.
"""

import time

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from app.ids import uuid7
from app.observe.metrics import HttpMetrics
from app.observe.tracing import adopted

REQUEST_ID = "request_id"
UNKNOWN = "(unknown)"  # one label for all addresses that no route has
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
QUIET_ROUTES = frozenset({"/health/live", "/health/ready", "/metrics"})

logger = structlog.get_logger("app.request")


class Observed:
    """An ASGI application that watches another."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer through the inner application."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        identifier = str(uuid7())
        scope.setdefault("state", {})[REQUEST_ID] = identifier
        status = 500
        started = time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], (b"x-request-id", identifier.encode())]
                message["headers"] = headers
            await send(message)

        try:
            with adopted(_traceparent(scope)):
                await self._app(scope, receive, watched)
        finally:
            self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: HTTPScope, status: int, seconds: float) -> None:
        route = str(scope.get("path_template") or UNKNOWN)
        method = scope["method"] if scope["method"] in METHODS else UNKNOWN
        self._metrics.requests.labels(method, route, str(status)).observe(seconds)
        level = "debug" if route in QUIET_ROUTES and status < 400 else "info"
        getattr(logger, level)(
            "request",
            request_id=scope["state"][REQUEST_ID],
            method=method,
            route=route,
            status=status,
            duration_ms=round(seconds * 1000, 1),
        )


def _traceparent(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"traceparent":
            return value.decode("latin-1")
    return None
