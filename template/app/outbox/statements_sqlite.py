"""Claim and settle on SQLite: a few statements inside one BEGIN IMMEDIATE, alone in the database.

The same rules as in `statements_postgresql.py`, which explains them. `:now` is a time in text form
or the word `now`; ids are 32 hexadecimal digits.
"""

from sqlalchemy import text

from app.outbox.policy import LONE_LOSSES
from app.outbox.statements import LONE_BACKOFF_SECONDS, LONE_BACKOFF_STEPS, LOST_ERROR, scan
from app.outbox.statements_ordered import HELD_UP, ORDERED_SCAN, pick
from app.outbox.tables import DUE, SUSPECT

FORMAT = "'%Y-%m-%dT%H:%M:%fZ'"
NOW = f"strftime({FORMAT}, :now)"
_FREE = f"(claim_token IS NULL OR lease_until < {NOW})"
_LOST = "claim_token IS NOT NULL"

# `claim_token` in an expression is the old value: not null means that the lease ran out.
_TAKE = f"""UPDATE outbox_messages SET
  claim_token = CASE WHEN {_LOST} THEN NULL ELSE :token END,
  claimed_at = CASE WHEN {_LOST} THEN claimed_at ELSE {NOW} END,
  lease_until = CASE WHEN {_LOST} THEN NULL ELSE strftime({FORMAT}, :now, :lease) END,
  attempts = attempts + CASE WHEN {_LOST} THEN 0 ELSE 1 END,
  losses = losses + CASE WHEN {_LOST} THEN 1 ELSE 0 END,
  lone_losses = lone_losses + CASE WHEN {_LOST} AND alone THEN 1 ELSE 0 END,
  alone = false,
  available_at = CASE WHEN NOT ({_LOST}) THEN available_at WHEN losses = 0 THEN {NOW}
    ELSE strftime({FORMAT}, :now, ({LONE_BACKOFF_SECONDS} * min(losses, {LONE_BACKOFF_STEPS}))
    || ' seconds') END,
  last_error = CASE WHEN {_LOST} THEN '{LOST_ERROR}' ELSE last_error END,
  parked_at = CASE WHEN {_LOST} AND alone AND lone_losses + 1 >= {LONE_LOSSES} THEN {NOW} END,
  parked_reason = CASE WHEN {_LOST} AND alone AND lone_losses + 1 >= {LONE_LOSSES}
    THEN 'crashed' END
WHERE id IN ({{picked}})
RETURNING id"""

# LIMIT can't come from the array here, so the store runs this once for each number of slots.
CLAIM = text(
    _TAKE.format(
        picked=f"""SELECT o.id FROM json_each(:destinations) d
  JOIN outbox_messages o ON o.id IN (
    SELECT id FROM outbox_messages
    WHERE {DUE} AND destination = d.value AND available_at <= {NOW} AND {_FREE}
    ORDER BY available_at, id LIMIT :slots) LIMIT :left"""
    )
)

CLAIM_LONE = text(
    _TAKE.format(
        picked=f"""SELECT id FROM outbox_messages
  WHERE {SUSPECT} AND available_at <= {NOW} AND {_FREE}
    AND (losses > 1) = coalesce(:again, losses > 1)
    AND destination NOT IN (SELECT value FROM json_each(:busy)) AND NOT {HELD_UP}
  ORDER BY available_at, id LIMIT 1"""
    )
)

_PICK = pick(
    destination=":destination",
    after=":after",
    policy=":policy",
    past_gap=f"strftime({FORMAT}, {{since}}, :gap || ' seconds') <= {NOW}",
    latest="max",
    probes=":probes",
    now=NOW,
)
PICK_ORDERED = text(f"{_PICK} LIMIT :slots")
CLAIM_ORDERED = text(_TAKE.format(picked="SELECT value FROM json_each(:ids)"))
ORDERED_DESTINATIONS = text(ORDERED_SCAN)

TAKEN = text(f"""SELECT m.id, m.event_id, e.type, e.tenant, m.destination, m.attempts,
  m.ladder_start,
  (julianday({NOW}) - julianday(coalesce(m.ladder_started_at, m.created_at))) * 86400.0 AS age,
  e.body, e.traceparent, m.losses,
  CASE WHEN m.ordering_key IS NOT NULL THEN m.sequence END AS sequence,
  m.available_at, m.claim_token IS NULL AS lost, m.parked_at IS NOT NULL AS parked
FROM json_each(:ids) i JOIN outbox_messages m ON m.id = i.value JOIN events e ON e.id = m.event_id
""")

LOG_LOST = text(f"""INSERT INTO attempts
  (message_id, number, event_id, type, destination, started_at, duration_ms, outcome, error)
SELECT m.id, m.attempts, m.event_id, e.type, m.destination, m.claimed_at,
  (julianday({NOW}) - julianday(m.claimed_at)) * 86400000.0, 'lost', '{LOST_ERROR}'
FROM json_each(:ids) i JOIN outbox_messages m ON m.id = i.value JOIN events e ON e.id = m.event_id
WHERE m.claim_token IS NULL
ON CONFLICT DO NOTHING""")

_GUARD = "outbox_messages.id = i.id AND claim_token = i.token"

SETTLE = text(f"""UPDATE outbox_messages SET
  claim_token = NULL, lease_until = NULL,
  attempts = attempts - CASE WHEN i.outcome IS NULL THEN 1 ELSE 0 END,
  sent_at = CASE WHEN i.outcome = 'delivered' THEN {NOW} END,
  parked_at = CASE WHEN i.reason IS NOT NULL THEN {NOW} END,
  parked_reason = i.reason,
  holds_up_since = CASE WHEN i.outcome = 'delivered' OR ordering_key IS NULL THEN holds_up_since
    ELSE coalesce(holds_up_since, {NOW}) END,
  available_at = CASE WHEN i.seconds IS NULL THEN available_at
    ELSE strftime({FORMAT}, :now, i.seconds || ' seconds') END,
  last_error = CASE WHEN i.outcome = 'delivered' THEN NULL
    WHEN i.outcome IS NULL AND i.reason IS NULL THEN coalesce(last_error, i.error)
    ELSE i.error END
FROM (SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS token,
  json_extract(value, '$[2]') AS outcome, json_extract(value, '$[3]') AS seconds,
  json_extract(value, '$[4]') AS reason, json_extract(value, '$[5]') AS error
  FROM json_each(:rows)) AS i
WHERE {_GUARD}
RETURNING id""")

LOG = text(f"""INSERT INTO attempts (message_id, number, event_id, type, destination, started_at,
  duration_ms, outcome, status_code, error_kind, error, response_head, response_body)
SELECT id, attempts, event_id, :type, destination, strftime({FORMAT}, :now, :started),
  :duration_ms, :outcome, :status_code, :error_kind, :error, :response_head, :response_body
FROM outbox_messages WHERE id = :id
ON CONFLICT DO NOTHING""")

_HELD = f"""UPDATE outbox_messages SET {{change}}
FROM (SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS token
  FROM json_each(:rows)) AS i
WHERE {_GUARD}
RETURNING id"""

EXTEND = text(_HELD.format(change=f"lease_until = strftime({FORMAT}, :now, :lease)"))
ALONE = text(_HELD.format(change="alone = :alone"))
RELEASE = text(
    _HELD.format(change="claim_token = NULL, lease_until = NULL, attempts = attempts - 1")
)

DUE_SCAN = text(scan(f"(julianday(available_at) - julianday({NOW})) * 86400.0"))
