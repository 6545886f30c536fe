"""Which messages of the ordered lane may go: at most one of each key, found by a skip scan.

A key's first message is the one with its lowest sequence that is neither sent nor dismissed.
Usually it alone is looked at. Where it can't go now and the policy is `skip` or `yield`, its line
is walked: over those that are stuck (parked, or failed and to be tried again), up to the first that
is not, which nothing behind it may pass. Invariants: nobody is chosen while a lower sequence holds
it up, and that stays true until it is taken, because no lower sequence can appear; so reading and
taking may be two statements. However long lines are, one look reads few rows of each, or other
destinations would wait for it. Both databases get the same text.
"""

from app.outbox.tables import ORDERED

PROBES = 1000  # keys looked at in one go, of all destinations together, if none of them may go
LEAST_PROBES = 20  # of one destination
LINE = 20  # messages of a key that are stuck and not parked; those behind wait for them

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


def _stuck_since(alias: str, policy: str, now: str) -> str:
    """Since when others may count on it no more; null: it may go, or is out, or waits itself."""
    return f"""CASE WHEN {policy} = 'skip' THEN {alias}.parked_at
      ELSE coalesce({alias}.holds_up_since, {alias}.parked_at,
        CASE WHEN {alias}.available_at > {now} THEN {alias}.created_at END,
        CASE WHEN {alias}.losses > 0 THEN {alias}.claimed_at END) END"""


_KEYS = """WITH RECURSIVE keys (ordering_key, probes) AS (
  SELECT (SELECT min(ordering_key) FROM outbox_messages
    WHERE {own} AND ordering_key > {after}), 1
  UNION ALL
  SELECT (SELECT min(ordering_key) FROM outbox_messages
    WHERE {own} AND ordering_key > k.ordering_key), k.probes + 1
  FROM keys k WHERE k.ordering_key IS NOT NULL AND k.probes < {probes}
), heads AS (
  SELECT k.ordering_key, k.probes, (SELECT id FROM outbox_messages
    WHERE {own} AND ordering_key = k.ordering_key ORDER BY sequence LIMIT 1) AS head
  FROM keys k WHERE k.ordering_key IS NOT NULL
)"""
# Of those behind a stuck head the first that has waited long enough for all that are stuck.
_BEHIND = f"""SELECT l.id FROM (
    SELECT x.*, max({{x_stuck}}) OVER lower AS held_since,
      sum(CASE WHEN {{x_stuck}} IS NULL THEN 1 ELSE 0 END) OVER lower AS waited_for
    FROM (SELECT * FROM outbox_messages
      WHERE {{own}} AND ordering_key = h.ordering_key AND parked_at IS NULL
      ORDER BY sequence LIMIT {LINE}) x
    WINDOW lower AS (ORDER BY x.sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  ) l
  WHERE {{l_takable}} AND coalesce(l.waited_for, 0) = 0
    AND ({{policy}} = 'skip' OR {{past_gap}})
  ORDER BY l.sequence LIMIT 1"""
_OWN_SINCE = "coalesce(l.holds_up_since, l.available_at)"  # its first attempt was let go
# Parked ones too. Not "parked_at IS NOT NULL": that would lead to the index of all parked rows.
_ANY_SINCE = """(SELECT max(coalesce(holds_up_since, parked_at)) FROM outbox_messages
      WHERE {own} AND ordering_key = h.ordering_key AND sequence < l.sequence)"""
_WAITS_SINCE = f"""{{latest}}({_OWN_SINCE}, coalesce(l.held_since, {_OWN_SINCE}),
      coalesce({_ANY_SINCE}, {_OWN_SINCE}))"""
_PICK = f"""{_KEYS}, picked AS (
  SELECT h.ordering_key, h.probes, h.head, CASE
    WHEN {{m_takable}} THEN h.head
    WHEN {{policy}} = 'strict' OR {{m_stuck}} IS NULL THEN NULL
    ELSE ({_BEHIND}) END AS id
  FROM heads h JOIN outbox_messages m ON m.id = h.head
)
SELECT ordering_key, probes, id, id <> head AS passed
FROM picked WHERE id IS NOT NULL OR probes = {{probes}}"""


def pick(
    *, destination: str, after: str, policy: str, past_gap: str, latest: str, now: str, probes: str
) -> str:
    """Of each key after `after` the message that may go, for one destination.

    `past_gap`: whether `{since}` is a gap ago; `latest`: the function that gives the latest of
    several times. The line of the last probe is there in any case.
    """
    own = f"{ORDERED} AND destination = {destination}"
    since = _WAITS_SINCE.format(own=own, latest=latest)
    return _PICK.format(
        own=own,
        probes=probes,
        after=after,
        policy=policy,
        past_gap=past_gap.format(since=since),
        m_takable=takable("m", now),
        l_takable=takable("l", now),
        m_stuck=_stuck_since("m", policy, now),
        x_stuck=_stuck_since("x", policy, now),
    )
