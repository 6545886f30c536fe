"""Tables of the outbox. The migration in `app/migrations` creates them; a test compares the two.

Invariant: a claim writes only columns that no index and no index predicate mentions, so that on
PostgreSQL it is a HOT update (fillfactor leaves room for it on the page). Think twice before you
index `attempts`, `claim_token`, `claimed_at` or `lease_until`. `status` is generated from the
columns that decide it and is itself in no index. The body is in `events`, so that a message, which
is updated several times, stays narrow.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    Float,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
    text,
)

from app.db.base import metadata
from app.db.dialect import Bytes, Id, UtcDateTime, db_now

STATUS = """CASE WHEN sent_at IS NOT NULL THEN 'sent'
 WHEN dismissed_at IS NOT NULL THEN 'dismissed'
 WHEN parked_at IS NOT NULL THEN 'parked'
 WHEN claim_token IS NOT NULL THEN 'claimed'
 ELSE 'pending' END"""

DUE = "sent_at IS NULL AND parked_at IS NULL AND losses = 0 AND ordering_key IS NULL"
SUSPECT = "sent_at IS NULL AND parked_at IS NULL AND losses > 0"
ORDERED = "sent_at IS NULL AND dismissed_at IS NULL AND ordering_key IS NOT NULL"
PARKED = "parked_at IS NOT NULL AND dismissed_at IS NULL"

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("type", String(128), nullable=False),
    Column("tenant", String(128), nullable=False),
    Column("body", Bytes, nullable=False),  # the exact bytes that are signed and sent
    Column("ordering_key", String(255)),
    Column("traceparent", String(64)),
    Column("occurred_at", UtcDateTime, nullable=False),
    Column("erased_at", UtcDateTime),  # the body is a tombstone that must never be sent
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
)

outbox_messages = Table(
    "outbox_messages",
    metadata,
    Column("id", Id, primary_key=True),  # = the header webhook-id
    Column("event_id", Id, ForeignKey("events.id"), nullable=False, index=True),
    Column("destination", String(128), nullable=False),
    Column("status", String(9), Computed(STATUS, persisted=True)),  # VIRTUAL on SQLite
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("ladder_start", Integer, nullable=False, server_default=text("0")),
    Column("ladder_started_at", UtcDateTime),  # null: created_at; set for later and by a retry
    Column("losses", SmallInteger, nullable=False, server_default=text("0")),
    Column("lone_losses", SmallInteger, nullable=False, server_default=text("0")),
    Column("alone", Boolean, nullable=False, server_default=text("false")),  # see relay/suspects.py
    Column("available_at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("claim_token", Id),
    Column("claimed_at", UtcDateTime),
    Column("lease_until", UtcDateTime),
    Column("ordering_key", String(255)),  # only while the destination orders; else null
    Column("sequence", BigInteger),
    Column("holds_up_since", UtcDateTime),  # in an ordered lane: its first failure
    Column("last_error", String(1000)),
    Column("parked_reason", String(20)),
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("sent_at", UtcDateTime),
    Column("parked_at", UtcDateTime),
    Column("dismissed_at", UtcDateTime),
    postgresql_with={"fillfactor": 40},
)


def _partial(name: str, *columns: str, where: str) -> Index:
    predicate = text(where)
    return Index(
        name,
        *(outbox_messages.c[column] for column in columns),
        postgresql_where=predicate,
        sqlite_where=predicate,
    )


# Destination first: with a global (available_at) index beside it the planner walks a busy
# destination's whole backlog to find a quiet destination's one message.
_partial("ix_outbox_messages_due", "destination", "available_at", "id", where=DUE)
_partial("ix_outbox_messages_suspect", "available_at", "id", where=SUSPECT)
_partial("ix_outbox_messages_ordered", "destination", "ordering_key", "sequence", where=ORDERED)
_partial("ix_outbox_messages_parked", "parked_at", "id", where=PARKED)

attempts = Table(
    "attempts",
    metadata,
    # No foreign key: attempts outlive their message as the audit trail.
    Column("message_id", Id, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("event_id", Id, nullable=False),
    Column("type", String(128), nullable=False),
    Column("destination", String(128), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("duration_ms", Float, nullable=False),
    Column("outcome", String(9), nullable=False),  # delivered | failed | lost
    Column("status_code", SmallInteger),
    Column("error_kind", String(16)),
    Column("error", String(1000)),
    # Request headers are not stored: they follow from the message and started_at.
    Column("response_head", Bytes),
    Column("response_body", Bytes),
)

subscriptions = Table(
    "subscriptions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant", String(128), nullable=False),
    Column("pattern", String(130), nullable=False),  # `order.paid`, `order.*`, `*`
    Column("destination", String(128), nullable=False),
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    UniqueConstraint("destination", "pattern"),
    Index("ix_subscriptions_pattern", "pattern", "tenant"),
)

# Which destinations order their messages; without a row: none.
orderings = Table(
    "orderings",
    metadata,
    Column("destination", String(128), primary_key=True),
    Column("policy", String(6), nullable=False),  # strict | yield | skip
    Column("gap_seconds", Float, nullable=False),
)

# The last sequence of each key, locked from just before COMMIT to COMMIT. Never pruned: a sequence
# that began anew would look to a receiver like a message of long ago.
ordering_keys = Table(
    "ordering_keys",
    metadata,
    Column("destination", String(128), primary_key=True),
    Column("ordering_key", String(255), primary_key=True),
    Column("last_sequence", BigInteger, nullable=False),
    postgresql_with={"fillfactor": 50},  # so that counting is a HOT update
)

inbox_messages = Table(
    "inbox_messages",
    metadata,
    Column("source", String(128), primary_key=True),
    Column("webhook_id", String(255), primary_key=True),
    Column("received_at", UtcDateTime, nullable=False, server_default=db_now()),
)

replays = Table(
    "replays",
    metadata,
    Column("id", Id, primary_key=True),
    Column("actor", String(200), nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("until", UtcDateTime, nullable=False),
    Column("tenant", String(128)),  # null: all
    Column("type", String(130)),
    Column("endpoint_id", Id),
    Column("per_second", Float, nullable=False),
    Column("last_event_id", Id),  # how far it is; null: not begun
    Column("paced_until", UtcDateTime),  # the next message is due no earlier
    Column("matched", BigInteger, nullable=False, server_default=text("0")),
    Column("created", BigInteger, nullable=False, server_default=text("0")),
    Column("skipped", BigInteger, nullable=False, server_default=text("0")),
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("finished_at", UtcDateTime),
)
