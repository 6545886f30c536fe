"""Claim and settle on PostgreSQL: each is one statement, so each is atomic without BEGIN.

Invariants, each with a test in `tests/outbox`:
- the predicates of `tables.py` stand here as literals: with parameters the planner can't match
  them to the partial indexes, and a claim reads every row ever sent;
- whatever is written after a claim is guarded by (id, token) and locks its rows in id order:
  without that order two relays deadlock, a second each time;
- a claim of a healthy row changes only columns that no index mentions (a HOT update).
"""

from app.outbox.policy import LONE_LOSSES
from app.outbox.statements import LONE_BACKOFF_SECONDS, LONE_BACKOFF_STEPS, LOST_ERROR, scan
from app.outbox.statements_ordered import HELD_UP, ORDERED_SCAN, pick, takable
from app.outbox.tables import DUE, SUSPECT


def _by(key: str, value: str) -> str:
    """A join of which the planner can only make look-ups in the index of `key`.

    A plan is kept while its table grows. With a plain `=` one made for ten rows may walk the table.
    """
    return f"{key} = ANY (ARRAY[{value}])"


# A row whose lease ran out is not claimed but reclaimed: its attempt is logged as lost, and it
# becomes a suspect, which is claimed alone from now on (losses > 0 is another index).
_TAKE = f"""
), taken AS (
  UPDATE outbox_messages m SET
    claim_token = CASE WHEN p.lost THEN NULL ELSE {{token}}::uuid END,
    claimed_at = CASE WHEN p.lost THEN m.claimed_at ELSE {{now}} END,
    lease_until = CASE WHEN p.lost THEN NULL
      ELSE {{now}} + make_interval(secs => {{lease}}::float8) END,
    attempts = m.attempts + CASE WHEN p.lost THEN 0 ELSE 1 END,
    losses = m.losses + CASE WHEN p.lost THEN 1 ELSE 0 END,
    lone_losses = m.lone_losses + CASE WHEN p.lost AND m.alone THEN 1 ELSE 0 END,
    alone = false,
    available_at = CASE WHEN NOT p.lost THEN m.available_at WHEN m.losses = 0 THEN {{now}}
      ELSE {{now}} + make_interval(
        secs => {LONE_BACKOFF_SECONDS} * least(m.losses, {LONE_BACKOFF_STEPS})) END,
    last_error = CASE WHEN p.lost THEN '{LOST_ERROR}' ELSE m.last_error END,
    parked_at = CASE WHEN p.crashed THEN {{now}} END,
    parked_reason = CASE WHEN p.crashed THEN 'crashed' END
  FROM picked p JOIN events e ON {_by("e.id", "p.event_id")} WHERE {_by("m.id", "p.id")}
  RETURNING m.id, m.event_id, e.type, e.tenant, m.destination, m.attempts, m.ladder_start,
    extract(epoch FROM {{now}} - coalesce(m.ladder_started_at, m.created_at))::float8 AS age,
    CASE WHEN p.lost THEN ''::bytea ELSE e.body END AS body, e.traceparent, m.losses,
    CASE WHEN m.ordering_key IS NOT NULL THEN m.sequence END AS sequence, m.available_at,
    p.lost, m.parked_at IS NOT NULL AS parked, m.claimed_at
), logged AS (
  INSERT INTO attempts
    (message_id, number, event_id, type, destination, started_at, duration_ms, outcome, error)
  SELECT id, attempts, event_id, type, destination, claimed_at,
    extract(epoch FROM {{now}} - claimed_at) * 1000, 'lost', '{LOST_ERROR}'
  FROM taken WHERE lost
  ON CONFLICT DO NOTHING
)
SELECT id, event_id, type, tenant, destination, attempts, ladder_start, age, body, traceparent,
  losses, sequence, available_at, lost, parked FROM taken"""

_FREE = "(claim_token IS NULL OR lease_until < {now})"
_LOST = f"""m.claim_token IS NOT NULL AS lost,
    m.claim_token IS NOT NULL AND m.alone AND m.lone_losses + 1 >= {LONE_LOSSES} AS crashed"""

CLAIM = f"""WITH picked AS (
  SELECT m.id, m.event_id, {_LOST}
  FROM unnest($1::text[], $2::int[], $3::timestamptz[]) AS w (destination, slots, floor)
  CROSS JOIN LATERAL (
    SELECT id, event_id, claim_token, alone, lone_losses FROM outbox_messages
    WHERE {DUE} AND destination = w.destination AND available_at <= {{now}}
      AND available_at >= coalesce(w.floor, '-infinity') AND {_FREE}
    ORDER BY available_at, id LIMIT w.slots FOR UPDATE SKIP LOCKED
  ) m LIMIT $7{_TAKE}""".format(token="$4", lease="$5", now="coalesce($6::timestamptz, now())")

_ENDS = f"(claim_token IS NOT NULL AND alone AND lone_losses + 1 >= {LONE_LOSSES})"
CLAIM_LONE = f"""WITH picked AS (
  SELECT m.id, m.event_id, {_LOST}
  FROM (
    SELECT id, event_id, claim_token, alone, lone_losses FROM outbox_messages
    WHERE {SUSPECT} AND available_at <= {{now}} AND {_FREE} AND {_ENDS} = $6
      AND (losses > 1) = coalesce($4, losses > 1) AND destination <> ALL ($5::text[])
      AND NOT {HELD_UP}
    ORDER BY available_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
  ) m{_TAKE}""".format(token="$1", lease="$2", now="coalesce($3::timestamptz, now())")

CRASHED = f"""SELECT 1 FROM outbox_messages
WHERE {SUSPECT} AND available_at <= {{now}} AND {_FREE} AND {_ENDS}
LIMIT 1""".format(now="coalesce($1::timestamptz, now())")

_NOW_4 = "coalesce($4::timestamptz, now())"
_PICK = pick(
    destination="w.destination",
    after="w.after",
    policy="w.policy",
    past_gap=f"{{since}} + make_interval(secs => w.gap_seconds) <= {_NOW_4}",
    latest="greatest",
    probes="$5::int",
    now=_NOW_4,
)
PICK_ORDERED = f"""SELECT w.destination, w.policy, p.*
FROM (SELECT i.*, coalesce(o.policy, 'strict') AS policy, o.gap_seconds
  FROM unnest($1::text[], $2::int[], $3::text[]) AS i (destination, slots, after)
  LEFT JOIN orderings o ON o.destination = i.destination) w
CROSS JOIN LATERAL ({_PICK} LIMIT w.slots) p"""
CLAIM_ORDERED = f"""WITH picked AS (
  SELECT m.id, m.event_id, {_LOST}
  FROM (
    SELECT id, event_id, claim_token, alone, lone_losses FROM outbox_messages
    WHERE id = ANY ($4::uuid[]) AND sent_at IS NULL AND {takable("outbox_messages", "{now}")}
    ORDER BY id FOR UPDATE SKIP LOCKED
  ) m{_TAKE}""".format(token="$1", lease="$2", now="coalesce($3::timestamptz, now())")
ORDERED_DESTINATIONS = ORDERED_SCAN

_NOW = "coalesce($1::timestamptz, now())"
# The guard is the join with (id, token). No "unsent, unparked" there: every end clears the token.
# `_by` leaves the planner only look-ups for each line of the sorted input, so rows are locked in id
# order; a step that locks them first costs an eighth of the statement.
_SETTLE = f"""WITH written AS (
  UPDATE outbox_messages m SET
    claim_token = NULL, lease_until = NULL,
    attempts = m.attempts - CASE WHEN i.outcome IS NULL THEN 1 ELSE 0 END,
    sent_at = CASE WHEN i.outcome = 'delivered' THEN {_NOW} END,
    parked_at = CASE WHEN i.reason IS NOT NULL THEN {_NOW} END,
    parked_reason = i.reason,
    holds_up_since = CASE WHEN i.outcome = 'delivered' OR m.ordering_key IS NULL
      THEN m.holds_up_since ELSE coalesce(m.holds_up_since, {_NOW}) END,
    available_at = CASE WHEN i.seconds IS NULL THEN m.available_at
      ELSE {_NOW} + make_interval(secs => i.seconds) END,
    last_error = CASE WHEN i.outcome = 'delivered' THEN NULL
      WHEN i.outcome IS NULL AND i.reason IS NULL THEN coalesce(m.last_error, i.error)
      ELSE i.error END
  FROM (
    SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::float8[], $6::text[], $7::text[],
      $8::text[], $9::float8[], $10::float8[], $11::int[], $12::text[], $13::bytea[], $14::bytea[])
    AS i (id, token, outcome, seconds, reason, error, type, started_ago, duration_ms,
      status_code, error_kind, response_head, response_body)
    ORDER BY id
  ) i WHERE {_by("m.id", "i.id")} AND m.claim_token = i.token
  RETURNING m.id, m.attempts, m.event_id, m.destination, i.outcome, i.error, i.type,
    i.started_ago, i.duration_ms, i.status_code, i.error_kind, i.response_head, i.response_body
), logged AS (
  INSERT INTO attempts (message_id, number, event_id, type, destination, started_at, duration_ms,
    outcome, status_code, error_kind, error, response_head, response_body)
  SELECT id, attempts, event_id, type, destination, {_NOW} - make_interval(secs => started_ago),
    duration_ms, outcome, status_code, error_kind, error, response_head, response_body
  FROM written WHERE outcome IS NOT NULL
  {{conflict}}
)
SELECT id FROM written"""
SETTLE = _SETTLE.format(conflict="")
# Where the log has a line of that number already, which only a person can have brought about.
SETTLE_LOGGED = _SETTLE.format(conflict="ON CONFLICT DO NOTHING")

_HELD = f"""UPDATE outbox_messages m SET {{change}}
FROM (SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS i (id, token) ORDER BY id) i
WHERE {_by("m.id", "i.id")} AND m.claim_token = i.token RETURNING m.id"""

EXTEND = _HELD.format(
    change="lease_until = coalesce($4::timestamptz, now()) + make_interval(secs => $3::float8)"
)
ALONE = _HELD.format(change="alone = $3::boolean")
RELEASE = _HELD.format(change="claim_token = NULL, lease_until = NULL, attempts = m.attempts - 1")

SETTLED_BEFORE = f"""SELECT message_id AS id FROM unnest($1::uuid[], $2::int[]) AS i (id, number)
JOIN attempts a ON {_by("a.message_id", "i.id")} AND a.number = i.number
WHERE a.outcome <> 'lost'"""

DUE_SCAN = scan("extract(epoch FROM available_at - coalesce($1::timestamptz, now()))::float8")
