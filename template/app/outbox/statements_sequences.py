"""The statements that run immediately before COMMIT, for messages of events with an ordering key.

Invariants: counters are locked in (destination, key) order, so two transactions can't deadlock over
them, and stay locked to COMMIT, so no lower sequence ever appears later than a higher one. What a
savepoint took back (its event is gone) gets no message and no sequence.
"""

from sqlalchemy import text

from app.db.dialect import SQLITE_NOW
from app.outbox.statements_publish import UUID7_POSTGRESQL, UUID7_SQLITE

# Shared by publishers, held alone by who changes a destination's policy. A statement of its own:
# what comes after it must see the policy that was committed while it waited.
_LOCK = "hashtextextended('ordering ' || {}, 0)"
LOCK_SHARED = text(f"""SELECT pg_advisory_xact_lock_shared({_LOCK.format("destination")})
FROM unnest(CAST(:destinations AS text[])) AS d (destination)""")
LOCK_ALONE = text(f"SELECT pg_advisory_xact_lock({_LOCK.format('CAST(:destination AS text)')})")

_LINE = "PARTITION BY i.destination, e.ordering_key"
_BEHIND = f"count(*) OVER ({_LINE}) - row_number() OVER ({_LINE} ORDER BY i.position) AS behind"
_COUNT = """INSERT INTO ordering_keys (destination, ordering_key, last_sequence)
  SELECT destination, ordering_key, count(*) FROM {owed} GROUP BY 1, 2 ORDER BY 1, 2
  ON CONFLICT (destination, ordering_key)
  DO UPDATE SET last_sequence = ordering_keys.last_sequence + excluded.last_sequence"""
_MESSAGES = """INSERT INTO outbox_messages
  (id, event_id, destination, available_at, ladder_started_at, ordering_key, sequence)
SELECT {uuid7}, o.event_id, o.destination, coalesce(o.available_at, {now}),
  CASE WHEN o.available_at > {now} THEN o.available_at END,
  CASE WHEN p.destination IS NOT NULL THEN o.ordering_key END, c.last_sequence - o.behind
FROM {owed} o JOIN {counted} c
  ON c.destination = o.destination AND c.ordering_key = o.ordering_key
LEFT JOIN orderings p ON p.destination = o.destination"""

STORE_POSTGRESQL = text(f"""
WITH owed AS MATERIALIZED (
  SELECT i.event_id, i.destination, i.available_at, e.ordering_key, {_BEHIND}
  FROM unnest(CAST(:event_ids AS uuid[]), CAST(:destinations AS text[]),
    CAST(:available_at AS timestamptz[]))
    WITH ORDINALITY AS i (event_id, destination, available_at, position)
  JOIN events e ON e.id = i.event_id
), counted AS (
  {_COUNT.format(owed="owed")}
  RETURNING destination, ordering_key, last_sequence
)
{_MESSAGES.format(uuid7=UUID7_POSTGRESQL, now="now()", owed="owed", counted="counted")}
""")

_OWED_SQLITE = f"""(SELECT i.event_id, i.destination, i.available_at, e.ordering_key, {_BEHIND}
  FROM (SELECT key AS position, json_extract(value, '$[0]') AS event_id,
    json_extract(value, '$[1]') AS destination, json_extract(value, '$[2]') AS available_at
    FROM json_each(:owed)) AS i
  JOIN events e ON e.id = i.event_id)"""
COUNT_SQLITE = text(_COUNT.format(owed=f"{_OWED_SQLITE} WHERE true"))
STORE_SQLITE = text(
    _MESSAGES.format(uuid7=UUID7_SQLITE, now=SQLITE_NOW, owed=_OWED_SQLITE, counted="ordering_keys")
)
