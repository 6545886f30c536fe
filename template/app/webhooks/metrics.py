"""What is counted about endpoints. Losing a count loses nothing."""

from prometheus_client import CollectorRegistry, Counter


class WebhookMetrics:
    """Counters of the deliverer, in the registry that `/metrics` shows."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.held_back = Counter(
            "webhook_held_back",
            "Claims given back because the endpoint takes nothing at present",
            ["limit"],
            registry=registry,
        )
        self.opened = Counter(
            "webhook_breaker_opened", "Circuit breakers opened by this relay", registry=registry
        )
        self.slowdowns = Counter(
            "webhook_slowdowns", "Endpoints slowed down by 429, 502 or 504", registry=registry
        )
