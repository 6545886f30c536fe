"""Outbox, webhooks, keys: the tables every project has."""

import sqlalchemy as sa
from alembic import op

from app.db.dialect import Bytes, Id, UtcDateTime, db_now

revision = "0001"
down_revision = None

STATUS = """CASE WHEN sent_at IS NOT NULL THEN 'sent'
 WHEN dismissed_at IS NOT NULL THEN 'dismissed'
 WHEN parked_at IS NOT NULL THEN 'parked'
 WHEN claim_token IS NOT NULL THEN 'claimed'
 ELSE 'pending' END"""
OPEN = "sent_at IS NULL AND parked_at IS NULL"
PARTIAL_INDEXES = {
    "ix_outbox_messages_due": (
        ["destination", "available_at", "id"],
        f"{OPEN} AND losses = 0 AND ordering_key IS NULL",
    ),
    "ix_outbox_messages_suspect": (["available_at", "id"], f"{OPEN} AND losses > 0"),
    "ix_outbox_messages_ordered": (
        ["destination", "ordering_key", "sequence"],
        "sent_at IS NULL AND dismissed_at IS NULL AND ordering_key IS NOT NULL",
    ),
    "ix_outbox_messages_parked": (
        ["parked_at", "id"],
        "parked_at IS NOT NULL AND dismissed_at IS NULL",
    ),
}
PARKED_VIEW = """CREATE VIEW parked_messages AS
SELECT m.id, m.event_id, e.type, e.tenant, m.destination, m.attempts, m.parked_reason, m.last_error,
 m.parked_at, m.created_at
FROM outbox_messages m JOIN events e ON e.id = m.event_id
WHERE m.parked_at IS NOT NULL AND m.dismissed_at IS NULL"""


def _created_at() -> sa.Column[object]:
    return sa.Column("created_at", UtcDateTime, nullable=False, server_default=db_now())


def upgrade() -> None:
    """Create every table; the order follows the foreign keys."""
    _events()
    _outbox_messages()
    _attempts()
    _subscriptions()
    _orderings()
    _endpoints()
    _keys()
    _people()
    _replays()
    op.execute(PARKED_VIEW)


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("id", Id, primary_key=True),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("body", Bytes, nullable=False),
        sa.Column("ordering_key", sa.String(255)),
        sa.Column("traceparent", sa.String(64)),
        sa.Column("occurred_at", UtcDateTime, nullable=False),
        sa.Column("erased_at", UtcDateTime),
        _created_at(),
    )


def _outbox_messages() -> None:
    # PostgreSQL keeps a generated column as STORED; SQLite can add only VIRTUAL ones later on.
    stored = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "outbox_messages",
        sa.Column("id", Id, primary_key=True),
        sa.Column("event_id", Id, sa.ForeignKey("events.id"), nullable=False, index=True),
        sa.Column("destination", sa.String(128), nullable=False),
        sa.Column("status", sa.String(9), sa.Computed(STATUS, persisted=stored)),
        sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("ladder_start", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("ladder_started_at", UtcDateTime),
        sa.Column("losses", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("lone_losses", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("alone", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("available_at", UtcDateTime, nullable=False, server_default=db_now()),
        sa.Column("claim_token", Id),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("lease_until", UtcDateTime),
        sa.Column("ordering_key", sa.String(255)),
        sa.Column("sequence", sa.BigInteger),
        sa.Column("holds_up_since", UtcDateTime),
        sa.Column("last_error", sa.String(1000)),
        sa.Column("parked_reason", sa.String(20)),
        _created_at(),
        sa.Column("sent_at", UtcDateTime),
        sa.Column("parked_at", UtcDateTime),
        sa.Column("dismissed_at", UtcDateTime),
        postgresql_with={"fillfactor": 40},
    )
    for name, (columns, where) in PARTIAL_INDEXES.items():
        predicate = sa.text(where)
        op.create_index(
            name, "outbox_messages", columns, postgresql_where=predicate, sqlite_where=predicate
        )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("message_id", Id, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("destination", sa.String(128), nullable=False),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("duration_ms", sa.Float, nullable=False),
        sa.Column("outcome", sa.String(9), nullable=False),
        sa.Column("status_code", sa.SmallInteger),
        sa.Column("error_kind", sa.String(16)),
        sa.Column("error", sa.String(1000)),
        sa.Column("response_head", Bytes),
        sa.Column("response_body", Bytes),
    )


def _subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("id", Id, primary_key=True),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("pattern", sa.String(130), nullable=False),
        sa.Column("destination", sa.String(128), nullable=False),
        _created_at(),
        sa.UniqueConstraint("destination", "pattern"),
    )
    op.create_index("ix_subscriptions_pattern", "subscriptions", ["pattern", "tenant"])
    op.create_table(
        "inbox_messages",
        sa.Column("source", sa.String(128), primary_key=True),
        sa.Column("webhook_id", sa.String(255), primary_key=True),
        sa.Column("received_at", UtcDateTime, nullable=False, server_default=db_now()),
    )


def _orderings() -> None:
    op.create_table(
        "orderings",
        sa.Column("destination", sa.String(128), primary_key=True),
        sa.Column("policy", sa.String(6), nullable=False),
        sa.Column("gap_seconds", sa.Float, nullable=False),
    )
    op.create_table(
        "ordering_keys",
        sa.Column("destination", sa.String(128), primary_key=True),
        sa.Column("ordering_key", sa.String(255), primary_key=True),
        sa.Column("last_sequence", sa.BigInteger, nullable=False),
        postgresql_with={"fillfactor": 50},
    )


def _endpoints() -> None:
    op.create_table(
        "endpoints",
        sa.Column("id", Id, primary_key=True),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("url", sa.String(2000), nullable=False),
        sa.Column("description", sa.String(500), nullable=False, server_default=sa.text("''")),
        sa.Column("status", sa.String(8), nullable=False, server_default=sa.text("'enabled'")),
        sa.Column("disabled_reason", sa.String(200)),
        sa.Column("disabled_at", UtcDateTime),
        sa.Column("timeout_seconds", sa.Float),
        sa.Column("retry", sa.JSON),
        sa.Column("rate_per_second", sa.Float),
        sa.Column("max_in_flight", sa.Integer),
        sa.Column("signature", sa.String(4), nullable=False, server_default=sa.text("'v1'")),
        sa.Column("headers", sa.JSON),
        sa.Column("auth", sa.JSON),
        sa.Column("version", sa.Integer, nullable=False, server_default=sa.text("1")),
        sa.Column("failing_since", UtcDateTime),
        sa.Column("breaker_until", UtcDateTime),
        sa.Column("owner", Id),
        sa.Column("owned_until", UtcDateTime),
        _created_at(),
        sa.Column("updated_at", UtcDateTime, nullable=False, server_default=db_now()),
    )
    op.create_index("ix_endpoints_tenant", "endpoints", ["tenant", "id"])
    op.create_table(
        "endpoint_secrets",
        sa.Column("id", Id, primary_key=True),
        sa.Column("endpoint_id", Id, sa.ForeignKey("endpoints.id"), nullable=False, index=True),
        sa.Column("signature", sa.String(4), nullable=False, server_default=sa.text("'v1'")),
        sa.Column("ciphertext", Bytes, nullable=False),
        _created_at(),
        sa.Column("expires_at", UtcDateTime),
    )
    op.create_table(
        "key_sentinel",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("ciphertext", Bytes, nullable=False),
    )


def _keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", Id, primary_key=True),
        sa.Column("hash", Bytes, nullable=False, unique=True),
        sa.Column("prefix", sa.String(12), nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("tenant", sa.String(128)),
        sa.Column("description", sa.String(200), nullable=False, server_default=sa.text("''")),
        _created_at(),
        sa.Column("last_used_at", UtcDateTime),
        sa.Column("revoked_at", UtcDateTime),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("api_key_id", Id, nullable=False),
        sa.Column("route", sa.String(200), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("fingerprint", Bytes, nullable=False),
        sa.Column("status_code", sa.SmallInteger),
        sa.Column("response_body", Bytes),
        _created_at(),
        sa.PrimaryKeyConstraint("tenant", "api_key_id", "route", "key"),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def _people() -> None:
    op.create_table(
        "login_tokens",
        sa.Column("hash", Bytes, primary_key=True),
        _created_at(),
        sa.Column("expires_at", UtcDateTime, nullable=False),
        sa.Column("used_at", UtcDateTime),
    )
    op.create_table(
        "admin_sessions",
        sa.Column("hash", Bytes, primary_key=True),
        sa.Column("csrf_token", sa.String(64), nullable=False),
        _created_at(),
        sa.Column("expires_at", UtcDateTime, nullable=False),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", Id, primary_key=True),
        sa.Column("at", UtcDateTime, nullable=False, server_default=db_now()),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.String(200), nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at"])


def _replays() -> None:
    op.create_table(
        "replays",
        sa.Column("id", Id, primary_key=True),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.Column("until", UtcDateTime, nullable=False),
        sa.Column("tenant", sa.String(128)),
        sa.Column("type", sa.String(130)),
        sa.Column("endpoint_id", Id),
        sa.Column("per_second", sa.Float, nullable=False),
        sa.Column("last_event_id", Id),
        sa.Column("paced_until", UtcDateTime),
        sa.Column("matched", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("created", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("skipped", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        _created_at(),
        sa.Column("finished_at", UtcDateTime),
    )


def downgrade() -> None:
    """Drop everything. This loses data; nothing lies before it."""
    op.execute("DROP VIEW parked_messages")
    for table in (
        "replays", "audit_log", "admin_sessions", "login_tokens", "idempotency_keys", "api_keys",
        "key_sentinel", "endpoint_secrets", "endpoints", "inbox_messages",
        "ordering_keys", "orderings", "subscriptions",
        "attempts", "outbox_messages", "events",
    ):  # fmt: skip
        op.drop_table(table)
