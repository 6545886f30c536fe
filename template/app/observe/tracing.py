"""Traces across the outbox: the trace of a request travels on the event to the webhook's receiver.

    traceparent of the request --adopted--> current context --> events.traceparent --> webhook

Only the OpenTelemetry API is used. Without an SDK it carries the caller's trace and costs nothing
else; with one (your choice of exporter), the current span is what travels. A malformed traceparent
counts as none.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_HEADER = "traceparent"
_propagator = TraceContextTextMapPropagator()


@contextmanager
def adopted(traceparent: str | None) -> Iterator[None]:
    """Make the trace of a `traceparent` header the current one."""
    if traceparent is None or trace.get_current_span().get_span_context().is_valid:
        yield
        return
    token = context.attach(_propagator.extract({_HEADER: traceparent}))
    try:
        yield
    finally:
        context.detach(token)


def current_traceparent() -> str | None:
    """The current trace as a `traceparent` value; None when there is none."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get(_HEADER)
