"""What the relay's statements for both databases have in common."""

from app.outbox.tables import DUE, SUSPECT

LOST_ERROR = "the relay that had claimed it ended, or stalled beyond its lease, without an outcome"
LONE_BACKOFF_SECONDS = 5.0  # times the number of losses: suspects take turns
LONE_BACKOFF_STEPS = 12


def scan(in_seconds: str) -> str:
    """Every destination that owes something, when its first message is due and its tenant.

    A skip scan: a few index probes per destination, however many rows each has. The line without a
    destination stands for the suspects.
    """
    return f"""WITH RECURSIVE scan (destination) AS (
  SELECT min(destination) FROM outbox_messages WHERE {DUE}
  UNION ALL
  SELECT (SELECT min(destination) FROM outbox_messages WHERE {DUE} AND destination > s.destination)
  FROM scan s WHERE s.destination IS NOT NULL
), first (destination, available_at) AS (
  SELECT s.destination,
    (SELECT min(available_at) FROM outbox_messages WHERE {DUE} AND destination = s.destination)
  FROM scan s WHERE s.destination IS NOT NULL
  UNION ALL
  SELECT NULL, (SELECT min(available_at) FROM outbox_messages WHERE {SUSPECT})
)
SELECT destination, {in_seconds} AS in_seconds,
  (SELECT e.tenant FROM events e WHERE e.id = (
    SELECT event_id FROM outbox_messages WHERE {DUE} AND destination = first.destination
    ORDER BY available_at, id LIMIT 1)) AS tenant
FROM first WHERE available_at IS NOT NULL"""
