"""Tables of webhook endpoints. Secrets are encrypted at rest with a key from APP_SECRET_KEY."""

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    text,
)

from app.db.base import metadata
from app.db.dialect import Bytes, Id, UtcDateTime, db_now

endpoints = Table(
    "endpoints",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant", String(128), nullable=False),
    Column("url", String(2000), nullable=False),
    Column("description", String(500), nullable=False, server_default=text("''")),
    Column("status", String(8), nullable=False, server_default=text("'enabled'")),
    Column("disabled_reason", String(200)),
    Column("disabled_at", UtcDateTime),
    Column("timeout_seconds", Float),  # null: APP_REQUEST_TIMEOUT_SECONDS
    Column("retry", JSON(none_as_null=True)),  # null: the default policy
    Column("rate_per_second", Float),
    Column("max_in_flight", Integer),
    Column("signature", String(4), nullable=False, server_default=text("'v1'")),
    Column("headers", JSON(none_as_null=True)),  # the owner's own: name to encrypted value
    Column("auth", JSON(none_as_null=True)),  # credentials: kind to encrypted value, and more
    Column("version", Integer, nullable=False, server_default=text("1")),  # grows at each change
    # Written by relays, at changes only, never per message; `version` stays.
    Column("failing_since", UtcDateTime),  # null: its latest answer was good
    Column("breaker_until", UtcDateTime),  # the circuit breaker is open until then; null: closed
    Column("owner", Id),  # of an endpoint with limits: the relay that alone sends to it
    Column("owned_until", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("updated_at", UtcDateTime, nullable=False, server_default=db_now()),
    Index("ix_endpoints_tenant", "tenant", "id"),
)

endpoint_secrets = Table(
    "endpoint_secrets",
    metadata,
    Column("id", Id, primary_key=True),
    Column("endpoint_id", Id, ForeignKey("endpoints.id"), nullable=False, index=True),
    Column("signature", String(4), nullable=False, server_default=text("'v1'")),
    Column("ciphertext", Bytes, nullable=False),  # v1: the secret; v1a: the private key
    Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    Column("expires_at", UtcDateTime),  # null: the current secret; set: the overlap of a rotation
)
