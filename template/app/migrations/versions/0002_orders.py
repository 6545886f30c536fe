"""The orders example."""

import sqlalchemy as sa
from alembic import op

from app.db.dialect import Id, UtcDateTime, db_now

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables of the example feature."""
    op.create_table(
        "orders",
        sa.Column("id", Id, primary_key=True),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("customer", sa.String(200), nullable=False),
        sa.Column("total_cents", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(6), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    )
    op.create_table(
        "receipts",
        sa.Column("order_id", Id, primary_key=True),
        sa.Column("text", sa.String(1000), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False, server_default=db_now()),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("receipts")
    op.drop_table("orders")
