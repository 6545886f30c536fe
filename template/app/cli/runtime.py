"""From settings to an open database: what every command that reads or writes goes through.

Invariant: a database that is away, locked, empty or of another version ends the command with a
sentence and the next command (`failures.py`), before the command has done anything.
"""

import asyncio
import getpass
import os
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from app.config import Settings, load_settings, read_environment, unknown_variables
from app.errors import ConfigError
from app.program import program

if TYPE_CHECKING:
    from app.db.engine import Database
    from app.db.migrate import SchemaState

T = TypeVar("T")


def settings_of_command() -> Settings:
    """The settings; a variable that no setting has is said on stderr."""
    from app.cli.output import note

    values = read_environment()
    settings = load_settings(values)
    for warning in unknown_variables(values):
        note(f"warning: {warning}")
    return settings


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end. Typer would create an `async def` command's coroutine and drop it."""
    return asyncio.run(work)


def wait_long_for(work: Coroutine[Any, Any, T]) -> T:
    """The same on the faster event loop, where there is one; it costs time to load."""
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.run(work)
    return uvloop.run(work)


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """What the database refuses inside the block becomes a sentence (`failures.py`)."""
    from app.cli.failures import explain

    try:
        yield
    except Exception as error:
        known = explain(error, settings)
        if known is None:
            raise
        raise known from None


@asynccontextmanager
async def open_database(
    settings: Settings, *, any_schema: bool = False
) -> AsyncGenerator["Database"]:
    """The database with its schema at head, closed afterwards."""
    from app.db.engine import Database

    with explained(settings):
        database = Database(settings)
        try:
            if not any_schema:
                await require_schema(database)
            yield database
        finally:
            await database.dispose()


async def check_ready(settings: Settings) -> None:
    """Raise, with the command that helps, unless a server or a relay could start now."""
    from app.cipher import Cipher, check_sentinel

    async with open_database(settings) as database:
        await check_sentinel(database, Cipher.of(settings))


async def require_schema(database: "Database") -> None:
    """Raise `ConfigError` unless the schema is the one that this code was written for."""
    from app.db.migrate import schema_state

    problem = schema_problem(await schema_state(database))
    if problem is not None:
        raise problem


def schema_problem(schema: "SchemaState") -> ConfigError | None:
    """What is wrong with the schema, and the command that helps."""
    hint = f"run: {program()} db upgrade"
    match schema.state:
        case "current":
            return None
        case "empty":
            return ConfigError("the database is empty, it has no tables yet", hint=hint)
        case "behind":
            return ConfigError(
                f"the schema is at {schema.current}, this code needs {schema.head}", hint=hint
            )
        case "ahead":
            return ConfigError(
                f"the schema is at {schema.current}, which this code does not know; "
                f"its newest is {schema.head}",
                hint="run the version of the code that made this schema, or a newer one",
            )


def actor() -> str:
    """Who the audit log says it was: `cli:<user>`."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's user often has no name
        return f"cli:{os.getuid()}"
