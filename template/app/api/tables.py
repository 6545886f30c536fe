"""Tables of the HTTP side: keys, idempotency, sign-in, audit log. No token is stored in clear."""

from sqlalchemy import (
    JSON,
    Column,
    Index,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    text,
)

from app.db.base import metadata
from app.db.dialect import Bytes, Id, UtcDateTime, db_now

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Id, primary_key=True),
    Column("hash", Bytes, nullable=False, unique=True),  # SHA-256 of a random 256-bit key
    Column("prefix", String(12), nullable=False),  # the first characters, to recognise a key
    Column("scope", String(16), nullable=False),  # events:write | read | admin
    Column("tenant", String(128)),  # null: an operator's key; '' is a tenant of its own
    Column("description", String(200), nullable=False, server_default=text("''")),
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", String(128), nullable=False),
    Column("api_key_id", Id, nullable=False),
    Column("route", String(200), nullable=False),  # method and path
    Column("key", String(255), nullable=False),
    Column("fingerprint", Bytes, nullable=False),  # SHA-256 of the body
    Column("status_code", SmallInteger),
    Column("response_body", Bytes),
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    PrimaryKeyConstraint("tenant", "api_key_id", "route", "key"),
    Index("ix_idempotency_keys_created_at", "created_at"),
)

login_tokens = Table(
    "login_tokens",
    metadata,
    Column("hash", Bytes, primary_key=True),
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("used_at", UtcDateTime),
)

admin_sessions = Table(
    "admin_sessions",
    metadata,
    Column("hash", Bytes, primary_key=True),
    Column("csrf_token", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("expires_at", UtcDateTime, nullable=False),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("actor", String(200), nullable=False),  # `key:<id>`, `cli:<user>`, `admin`
    Column("action", String(64), nullable=False),  # `message.retry`
    Column("target", String(200), nullable=False),
    Column("detail", JSON, nullable=False),
    Index("ix_audit_log_at", "at"),
)
