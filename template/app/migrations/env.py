"""What Alembic runs: the caller hands over a live connection, in which everything happens.

Invariant: one transaction per upgrade, also on SQLite (the engine begins it explicitly), so that a
migration that fails leaves nothing half done.
"""

from alembic import context

from app.db.migrate import CONNECTION
from app.db.registry import load_tables

context.configure(
    connection=context.config.attributes[CONNECTION],
    target_metadata=load_tables(),
    compare_type=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
