"""Turns what database drivers raise into a sentence with the next step.

Only states of the world are explained here: a database that is away, locked, full or foreign. What
can only be a bug stays an exception with its traceback.
"""

import sqlite3
from collections.abc import Iterator

import asyncpg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from app.config import Settings
from app.errors import AppError, ConfigError
from app.program import program

SQLITE_PHRASES = {
    "database is locked": ("is locked by another process", "wait for it to end, or stop it"),
    "unable to open": ("can't be opened", "look at its folder's owner and mode"),
    "not a database": ("is not a SQLite database", "correct APP_DATABASE_URL"),
    "readonly": ("may not be written by this user", "look at the file's owner and mode"),
    "disk is full": ("can't grow: the disk is full", "make room"),
    "malformed": ("is damaged", "restore it from a backup"),
}


def explain(error: Exception, settings: Settings) -> AppError | None:
    """The error as a sentence; None if it is deliberate already, or a bug."""
    if isinstance(error, AppError):
        return None
    name = place(settings)
    for cause in causes(error):
        known = _sqlite(cause, name) if settings.is_sqlite else _postgresql(cause, name)
        if known is not None:
            return known
    return None


def place(settings: Settings) -> str:
    """Where the database is, without user and password."""
    url = make_url(settings.database_url)
    if settings.is_sqlite:
        return f"the database file {url.database}"
    return f"the database {url.database} at {url.host or 'localhost'}:{url.port or 5432}"


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what is behind it, the driver's own exception included."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or current in seen:
            continue
        seen.append(current)
        yield current
        waiting.append(current.__cause__)
        if isinstance(current, DBAPIError):
            waiting.append(current.orig)


def _sqlite(cause: BaseException, name: str) -> AppError | None:
    if isinstance(cause, OSError):
        return ConfigError(
            f"{name} can't be made: {cause.strerror or cause}",
            hint="correct APP_DATABASE_URL",
        )
    if not isinstance(cause, sqlite3.Error):
        return None
    message = str(cause)
    if "no such table" in message or "no such column" in message:
        return _schema(name)
    for phrase, (what, hint) in SQLITE_PHRASES.items():
        if phrase in message:
            return ConfigError(f"{name} {what}", hint=hint)
    return None


def _postgresql(cause: BaseException, name: str) -> AppError | None:
    match cause:
        case asyncpg.InvalidCatalogNameError():
            return ConfigError(f"{name} does not exist", hint="create it, or set APP_DATABASE_URL")
        case asyncpg.InvalidAuthorizationSpecificationError():
            return ConfigError(f"{name} refuses the user: {cause}", hint="set APP_DATABASE_URL")
        case asyncpg.InsufficientPrivilegeError():
            return ConfigError(f"{name} refuses: {cause}", hint="grant the right to this user")
        case asyncpg.UndefinedTableError() | asyncpg.UndefinedColumnError():
            return _schema(name)
        case OSError() | asyncpg.PostgresConnectionError() | asyncpg.CannotConnectNowError():
            return ConfigError(
                f"{name} does not answer: {cause}", hint="start it, or set APP_DATABASE_URL"
            )
        case _:
            return None


def _schema(name: str) -> AppError:
    return ConfigError(f"{name} lacks a table of this code", hint=f"run: {program()} db upgrade")
