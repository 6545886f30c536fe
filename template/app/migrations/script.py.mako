"""${message}

Revises: ${down_revision | comma,n}
"""

import sqlalchemy as sa
from alembic import op

revision = "${up_revision}"
down_revision = ${f'"{down_revision}"' if isinstance(down_revision, str) else repr(down_revision)}


def upgrade() -> None:
    """Forward; safe while the application runs (PostgreSQL: indexes CONCURRENTLY)."""


def downgrade() -> None:
    """Back."""
