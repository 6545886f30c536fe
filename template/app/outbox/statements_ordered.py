"""Which messages of the ordered lane may go: at most one of each key, found by a skip scan.

A key's first message is the one with its lowest sequence that is neither sent nor dismissed.
Usually it alone is looked at. Where it can't go now and the policy is `skip` or `yield`, its line
is walked: over those that are stuck (parked, or failed and to be tried again), up to the first that
is not, which nothing behind it may pass. Invariant: nobody is chosen while a lower sequence holds
it up, and that stays true until it is taken, because no lower sequence can appear. So reading and
taking may be two statements. Both databases get the same text.
"""

from app.outbox.tables import ORDERED

PROBES = 1000  # keys looked at in one go: 8 ms, if none of them may go

ORDERED_SCAN = f"""WITH RECURSIVE scan (destination) AS (
  SELECT min(destination) FROM outbox_messages WHERE {ORDERED}
  UNION ALL
  SELECT (SELECT min(destination) FROM outbox_messages
    WHERE {ORDERED} AND destination > s.destination)
  FROM scan s WHERE s.destination IS NOT NULL
)
SELECT destination FROM scan WHERE destination IS NOT NULL"""

# A suspect that waits for another one; under `yield` it has been let go before.
HELD_UP = """EXISTS (SELECT 1 FROM outbox_messages l
  WHERE l.sent_at IS NULL AND l.dismissed_at IS NULL AND l.ordering_key IS NOT NULL
    AND l.destination = outbox_messages.destination
    AND l.ordering_key = outbox_messages.ordering_key AND l.sequence < outbox_messages.sequence
    AND CASE (SELECT policy FROM orderings o WHERE o.destination = l.destination)
      WHEN 'yield' THEN false WHEN 'skip' THEN l.parked_at IS NULL ELSE true END)"""


def takable(alias: str, now: str) -> str:
    """It is due and nobody has it."""
    return f"""{alias}.parked_at IS NULL AND {alias}.losses = 0 AND {alias}.available_at <= {now}
    AND ({alias}.claim_token IS NULL OR {alias}.lease_until < {now})"""


def pick(*, destination: str, after: str, policy: str, past_gap: str, now: str) -> str:
    """Of each key after `after` the message that may go, for one destination.

    `past_gap`: whether `{since}` is a gap ago. The line of the last probe is there in any case.
    """
    own = f"{ORDERED} AND destination = {destination}"
    stuck = f"""CASE WHEN {policy} = 'skip' THEN {{0}}.parked_at
      ELSE coalesce({{0}}.holds_up_since, {{0}}.parked_at,
        CASE WHEN {{0}}.available_at > {now} THEN {{0}}.created_at END,
        CASE WHEN {{0}}.losses > 0 THEN {{0}}.claimed_at END) END"""
    own_since = "coalesce(l.holds_up_since, l.available_at)"
    since = f"CASE WHEN l.held_since > {own_since} THEN l.held_since ELSE {own_since} END"
    return f"""WITH RECURSIVE keys (ordering_key, probes) AS (
  SELECT (SELECT min(ordering_key) FROM outbox_messages WHERE {own} AND ordering_key > {after}), 1
  UNION ALL
  SELECT (SELECT min(ordering_key) FROM outbox_messages
    WHERE {own} AND ordering_key > k.ordering_key), k.probes + 1
  FROM keys k WHERE k.ordering_key IS NOT NULL AND k.probes < {PROBES}
), heads AS (
  SELECT k.ordering_key, k.probes, (SELECT id FROM outbox_messages
    WHERE {own} AND ordering_key = k.ordering_key ORDER BY sequence LIMIT 1) AS head
  FROM keys k WHERE k.ordering_key IS NOT NULL
), picked AS (
  SELECT h.ordering_key, h.probes, h.head, CASE
    WHEN {takable("m", now)} THEN h.head
    WHEN {policy} = 'strict' THEN NULL
    ELSE (SELECT l.id FROM (
      SELECT x.*, max({stuck.format("x")}) OVER (
        ORDER BY x.sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS held_since
      FROM outbox_messages x WHERE {own} AND ordering_key = h.ordering_key
        AND sequence <= coalesce((SELECT y.sequence FROM outbox_messages y
          WHERE {own} AND ordering_key = h.ordering_key AND {stuck.format("y")} IS NULL
          ORDER BY sequence LIMIT 1), {2**63 - 1})
      ) l
      WHERE {takable("l", now)}
        AND (l.held_since IS NULL OR {policy} = 'skip' OR {past_gap.format(since=since)})
      ORDER BY l.sequence LIMIT 1) END AS id
  FROM heads h JOIN outbox_messages m ON m.id = h.head
)
SELECT ordering_key, probes, id, id <> head AS passed
FROM picked WHERE id IS NOT NULL OR probes = {PROBES}"""
