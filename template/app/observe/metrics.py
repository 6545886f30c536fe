"""Metrics of the HTTP side, and the page that Prometheus reads.

One registry per application (tests run several), handed over by wiring; the relay's own metrics are
in `relay/metrics.py`. Labels are route patterns, never paths: a path would be a series of its own.
Invariant: reading the page queries nothing. Metrics may be lost; nothing else depends on them.
"""

from litestar import get
from litestar.handlers import BaseRouteHandler
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.api.auth import PUBLIC, requires
from app.config import Settings

TEXT = CONTENT_TYPE_LATEST.partition("; charset")[0]  # the framework adds the charset
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class HttpMetrics:
    """What is counted about requests and published events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Histogram(
            "http_request_duration_seconds",
            "Time to answer a request",
            ["method", "route", "status"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.unregistered_events = Counter(
            "events_unregistered",
            "Events taken over HTTP whose type is not in the catalogue",
            registry=registry,
        )


def metrics_routes(settings: Settings, registry: CollectorRegistry) -> BaseRouteHandler:
    """`GET /metrics`: open with APP_METRICS_PUBLIC, else for keys with scope `read`."""
    opening = {"opt": PUBLIC} if settings.metrics_public else {"guards": [requires("read")]}

    @get("/metrics", include_in_schema=False, media_type=TEXT, **opening)
    async def metrics() -> bytes:
        return generate_latest(registry)

    return metrics
