"""The single checks of `check`. Each answers findings and never raises for what it finds.

A new check is a function that yields findings and one line in `find_all` or `_inside`.
"""

import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from sqlalchemy import func, select

from app.cipher import Cipher, check_sentinel
from app.cli.failures import place
from app.cli.runtime import open_database, schema_problem
from app.config import (
    LEASE_MARGIN_SECONDS,
    PLACEHOLDER_SECRET,
    Settings,
    load_settings,
    read_environment,
    unknown_variables,
)
from app.db.dialect import db_now
from app.db.engine import Database, sqlite_path
from app.db.migrate import schema_state
from app.db.tables import key_sentinel
from app.errors import AppError
from app.program import program
from app.webhooks.tables import endpoints

CLOCK_SECONDS = 2.0


class Level(StrEnum):
    """How bad a finding is; only errors make `check` fail."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    level: Level
    message: str
    hint: str = ""


def _failed(check: str, error: AppError) -> Finding:
    return Finding(check, Level.ERROR, error.message, error.hint)


async def find_all() -> list[Finding]:
    """Every finding, in an order in which later ones depend on earlier ones."""
    findings = list(_modes())
    try:
        values = read_environment()
        findings += [
            Finding("configuration", Level.WARNING, text) for text in unknown_variables(values)
        ]
        settings = load_settings(values)
    except AppError as error:
        return [*findings, _failed("configuration", error)]
    findings += [*_configuration(settings), _lease(settings)]
    try:
        async with open_database(settings, any_schema=True) as database:
            findings += [finding async for finding in _inside(database, settings)]
    except AppError as error:
        findings.append(_failed("database", error))
    return findings


def _configuration(settings: Settings) -> Iterator[Finding]:
    yield Finding("configuration", Level.OK, f"APP_ENV is {settings.env}")
    if settings.secret_key == PLACEHOLDER_SECRET:
        yield Finding(
            "configuration",
            Level.WARNING,
            "APP_SECRET_KEY is the placeholder of .env.example; everybody knows it",
            f"remove .env, then run: {program()} init",
        )


def _lease(settings: Settings) -> Finding:
    return Finding(
        "lease",
        Level.OK,
        f"APP_LEASE_SECONDS {settings.lease_seconds:g} s >= APP_REQUEST_TIMEOUT_SECONDS "
        f"{settings.request_timeout_seconds:g} s + {LEASE_MARGIN_SECONDS:g} s",
    )


def _modes() -> Iterator[Finding]:
    path = Path(".env")
    if path.is_file() and path.stat().st_mode & 0o077:
        yield Finding("secrets", Level.WARNING, ".env can be read by others", "run: chmod 600 .env")


async def _inside(database: Database, settings: Settings) -> AsyncGenerator[Finding]:
    before = time.time()
    async with database.read() as session:
        now = (await session.execute(select(db_now()))).scalar_one()
    yield Finding("database", Level.OK, f"{place(settings)} answers")
    yield _clock(now, before, time.time())
    if settings.is_sqlite:
        for finding in _file_mode(sqlite_path(settings.database_url)):
            yield finding
    schema = await schema_state(database)
    problem = schema_problem(schema)
    if problem is not None:
        level = Level.WARNING if schema.state == "empty" else Level.ERROR
        yield Finding("schema", level, problem.message, problem.hint)
        return
    yield Finding("schema", Level.OK, f"at {schema.current}, the newest")
    yield await _secret_key(database, settings)
    async for finding in _long_timeouts(database, settings):
        yield finding


def _clock(now: datetime, before: float, after: float) -> Finding:
    moment = now.timestamp()
    difference = max(before - moment, moment - after, 0.0)
    if difference <= CLOCK_SECONDS:
        return Finding("clock", Level.OK, "database and host agree")
    return Finding(
        "clock",
        Level.WARNING,
        f"database and host differ by {difference:.1f} s; receivers refuse old timestamps",
        "synchronise both with NTP",
    )


def _file_mode(path: Path | None) -> Iterator[Finding]:
    if path is not None and path.is_file() and path.stat().st_mode & 0o077:
        yield Finding(
            "secrets", Level.WARNING, f"{path} can be read by others", f"run: chmod 600 {path}"
        )


async def _secret_key(database: Database, settings: Settings) -> Finding:
    # Only a server or a relay writes the sentinel: a check must not settle which key it is.
    async with database.read() as session:
        stored = (await session.execute(select(func.count()).select_from(key_sentinel))).scalar()
    if not stored:
        return Finding("secrets", Level.OK, "no secret is stored yet")
    try:
        await check_sentinel(database, Cipher.of(settings))
    except AppError as error:
        return _failed("secrets", error)
    return Finding("secrets", Level.OK, "APP_SECRET_KEY reads what is stored")


async def _long_timeouts(database: Database, settings: Settings) -> AsyncGenerator[Finding]:
    longest = settings.lease_seconds - LEASE_MARGIN_SECONDS
    async with database.read() as session:
        query = select(func.count()).where(
            endpoints.c.timeout_seconds > longest, endpoints.c.status != "deleted"
        )
        count = (await session.execute(query)).scalar_one()
    if count:
        yield Finding(
            "lease",
            Level.ERROR,
            f"{count} endpoints have a timeout above APP_LEASE_SECONDS - "
            f"{LEASE_MARGIN_SECONDS:g} s = {longest:g} s",
            "raise APP_LEASE_SECONDS, or shorten their timeout_seconds",
        )
