"""The migrations and the tables of the code agree, on both databases."""

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from app.db.engine import Database
from app.db.migrate import downgrade, schema_state, upgrade
from app.db.registry import load_tables


async def test_a_migrated_database_shows_no_drift_from_the_tables(database: Database):
    """`alembic check` finds nothing to add, drop or change."""
    async with database.reader.connect() as connection:
        drift = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), load_tables())
        )
    assert drift == []


async def test_every_migration_can_be_undone_and_redone(database: Database):
    """Down to nothing and up again."""
    await downgrade(database, "base")
    assert (await schema_state(database)).state == "empty"
    await upgrade(database)
    assert (await schema_state(database)).state == "current"


async def test_parked_messages_is_a_view_that_can_be_read(database: Database):
    """The SQL view exists beside the table."""
    async with database.read() as session:
        assert (await session.execute(text("SELECT count(*) FROM parked_messages"))).scalar() == 0
