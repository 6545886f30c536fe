"""Schema up and down, and where it stands. Called by the command line, `check` and readiness.

Invariant: a migration runs in the caller's connection and in one transaction.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from app.db.engine import Database

CONNECTION = "connection"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Where the database's schema stands, compared with the code's."""

    state: Literal["empty", "behind", "current", "ahead"]
    current: str | None
    head: str


def alembic_config() -> Config:
    """Alembic's configuration; no ini file, the scripts lie in the package."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent.parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def head_revision() -> str:
    """The newest revision that this code knows."""
    head = ScriptDirectory.from_config(alembic_config()).get_current_head()
    assert head is not None, "app/migrations/versions is empty"
    return head


async def upgrade(database: Database, revision: str = "head") -> None:
    """Bring the schema to `revision`; all of it, or nothing if a step fails."""
    async with database.writer.begin() as connection:
        await connection.run_sync(_run, command.upgrade, revision)


async def downgrade(database: Database, revision: str) -> None:
    """Bring the schema back to `revision`."""
    async with database.writer.begin() as connection:
        await connection.run_sync(_run, command.downgrade, revision)


def _run(connection: Connection, step: object, revision: str) -> None:
    config = alembic_config()
    config.attributes[CONNECTION] = connection
    step(config, revision)  # type: ignore[operator]


async def schema_state(database: Database) -> SchemaState:
    """Compare the database with the code. Raises what the driver raises if it does not answer."""
    async with database.reader.connect() as connection:
        current = await connection.run_sync(
            lambda sync: MigrationContext.configure(sync).get_current_revision()
        )
    script = ScriptDirectory.from_config(alembic_config())
    head = head_revision()
    if current is None:
        return SchemaState("empty", None, head)
    if current == head:
        return SchemaState("current", current, head)
    known = {revision.revision for revision in script.walk_revisions()}
    return SchemaState("behind" if current in known else "ahead", current, head)
