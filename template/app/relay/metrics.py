"""What the relay counts for Prometheus. Counted per batch, at settle; losing a count loses nothing.

No name ends in `_created`: the client library makes names with that ending itself.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge


class RelayMetrics:
    """The relay's counters and gauges, in the registry that `/metrics` shows."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        self.claims = counter("relay_claims", "Messages claimed", "lane")
        self.attempts = counter("relay_attempts", "Attempts settled", "kind", "outcome")
        self.deferrals = counter("relay_deferrals", "Claims given back without an attempt", "kind")
        self.gaps = counter(
            "relay_gaps", "Messages sent although a lower sequence of their key was open", "policy"
        )
        self.parked = counter("relay_parked", "Messages parked", "reason")
        self.settle_lost = counter(
            "relay_settle_lost", "Outcomes not written because the claim was taken over"
        )
        self.errors = counter("relay_errors", "Failures of the relay itself, survived", "where")
        self.pruned = counter("relay_pruned", "Rows deleted by retention", "table")
        self.in_flight = gauge("relay_in_flight", "Claims held by this relay")
        self.messages = gauge("outbox_messages", "Messages in the database", "status")
        self.replays = gauge("outbox_replays_unfinished", "Replays that are not finished")
        self.blocked_keys = gauge(
            "outbox_blocked_keys", "Strict ordering keys whose messages wait for a parked one"
        )
        self.oldest_due = gauge(
            "outbox_oldest_due_seconds", "How long the message that is due longest has been due"
        )
