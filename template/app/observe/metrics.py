"""Metrics of the HTTP side. `GET /metrics` (see `api/health.py`) shows them.

One registry per application (tests run several), handed over by wiring; the relay's own metrics are
in `relay/metrics.py`. Labels are route patterns, never paths: a path would be a series of its own.
Invariant: reading the page queries nothing. Metrics may be lost; nothing else depends on them.
"""

from prometheus_client import CollectorRegistry, Counter, Histogram

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
            "Events published whose type is not in the catalogue",
            registry=registry,
        )
