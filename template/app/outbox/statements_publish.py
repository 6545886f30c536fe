"""The statements of publish: events, a message for each subscribed destination and each handler.

PostgreSQL stores both in one statement, which costs a quarter less than two. Message ids are
UUIDv7 made in SQL, because only the database knows how many there will be. The ladder of a message
for later starts when it is due: no age limit runs before that.
"""

from sqlalchemy import text

from app.db.dialect import SQLITE_NOW

# 48 bits of milliseconds over a version 4 UUID, whose version bits are then raised to 7.
UUID7_POSTGRESQL = """encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
 PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
 FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid""".replace("::", r"\:\:")

UUID7_SQLITE = """lower(printf('%012x', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
 || '7' || substr(hex(randomblob(2)), 2) || substr('89ab', 1 + (random() & 3), 1)
 || substr(hex(randomblob(8)), 2))"""

_EVENTS_POSTGRESQL = """WITH input AS (
  SELECT * FROM unnest(
    CAST(:id AS uuid[]), CAST(:type AS text[]), CAST(:tenant AS text[]), CAST(:body AS bytea[]),
    CAST(:ordering_key AS text[]), CAST(:traceparent AS text[]),
    CAST(:occurred_at AS timestamptz[]), CAST(:available_at AS timestamptz[]),
    CAST(:patterns AS text[]), CAST(:handlers AS text[])
  ) AS i (id, type, tenant, body, ordering_key, traceparent, occurred_at, available_at, patterns,
    handlers)
), stored AS (
  INSERT INTO events (id, type, tenant, body, ordering_key, traceparent, occurred_at)
  SELECT id, type, tenant, body, ordering_key, traceparent, occurred_at FROM input
)"""
_MATCHED_POSTGRESQL = """FROM input i CROSS JOIN LATERAL (
  SELECT destination FROM subscriptions
  WHERE tenant = i.tenant AND pattern = ANY (string_to_array(i.patterns, ' '))
  UNION SELECT unnest(string_to_array(i.handlers, ' '))
) s"""

PUBLISH_POSTGRESQL = text(f"""{_EVENTS_POSTGRESQL}
INSERT INTO outbox_messages (id, event_id, destination, available_at, ladder_started_at)
SELECT {UUID7_POSTGRESQL}, i.id, s.destination, coalesce(i.available_at, now()),
  CASE WHEN i.available_at > now() THEN i.available_at END
{_MATCHED_POSTGRESQL}
RETURNING event_id, destination
""")

# With ordering keys: the messages are stored before COMMIT, see `sequences.py`.
PUBLISH_KEYED_POSTGRESQL = text(f"""{_EVENTS_POSTGRESQL}
SELECT i.id AS event_id, s.destination
{_MATCHED_POSTGRESQL}
""")

_MATCHED_SQLITE = """SELECT json_extract(i.value, '$.event_id') AS event_id, s.destination,
    json_extract(i.value, '$.available_at') AS available_at
  FROM json_each(:owing) i
  JOIN json_each(i.value, '$.patterns') p
  JOIN subscriptions s ON s.pattern = p.value AND s.tenant = json_extract(i.value, '$.tenant')
  UNION SELECT json_extract(i.value, '$.event_id'), h.value, json_extract(i.value, '$.available_at')
  FROM json_each(:owing) i JOIN json_each(i.value, '$.handlers') h"""
MATCHED_SQLITE = text(_MATCHED_SQLITE)

MESSAGES_SQLITE = text(f"""
INSERT INTO outbox_messages (id, event_id, destination, available_at, ladder_started_at)
SELECT {UUID7_SQLITE}, event_id, destination, coalesce(available_at, {SQLITE_NOW}),
  CASE WHEN available_at > {SQLITE_NOW} THEN available_at END
FROM ({_MATCHED_SQLITE})
RETURNING event_id, destination
""")
