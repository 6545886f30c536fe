"""Sign-in on both databases: a link works once and not for long, an id is made by us alone."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from app.api.signin import (
    LINK_SECONDS,
    SESSION_SECONDS,
    create_login_token,
    end_session,
    find_session,
    redeem_token,
)
from app.api.tables import admin_sessions, login_tokens
from app.db.engine import Database

NOW = datetime(2030, 1, 1, 3, 0, tzinfo=UTC)


async def _link(database: Database, now: datetime | None = None) -> str:
    async with database.transaction() as session:
        return await create_login_token(session, now)


async def _redeem(database: Database, token: str, now: datetime | None = None) -> str | None:
    async with database.transaction() as session:
        return await redeem_token(session, token, now)


async def test_a_link_signs_in_once(database: Database) -> None:
    """The second use of a token gives nothing."""
    token = await _link(database)
    assert await _redeem(database, token) is not None
    assert await _redeem(database, token) is None


async def test_of_two_uses_at_once_one_gets_in(database: Database) -> None:
    """Using a token is one statement: a race has one winner."""
    token = await _link(database)
    answers = await asyncio.gather(*(_redeem(database, token) for _ in range(5)))
    assert sum(answer is not None for answer in answers) == 1


@pytest.mark.parametrize(("late", "works"), [(-1, True), (0, False), (1, False)])
async def test_a_link_lives_ten_minutes(database: Database, late: int, works: bool) -> None:
    """At the tenth minute a token is too old."""
    token = await _link(database, NOW)
    moment = NOW + timedelta(seconds=LINK_SECONDS + late)
    assert (await _redeem(database, token, moment) is not None) == works


@pytest.mark.parametrize("token", ["", "x", "0" * 43, "\udc80", "é" * 5000])
async def test_an_unknown_token_gives_nothing(database: Database, token: str) -> None:
    """Whatever stands in the URL is looked up by its hash and found or not."""
    await _link(database)
    assert await _redeem(database, token) is None


async def test_a_session_lives_twelve_hours(database: Database) -> None:
    """After twelve hours the id opens nothing."""
    session_id = await _redeem(database, await _link(database, NOW), NOW)
    assert session_id is not None
    end = NOW + timedelta(seconds=SESSION_SECONDS)
    async with database.read() as session:
        found = await find_session(session, session_id, end - timedelta(seconds=1))
        assert found is not None
        assert found.expires_at == end
        assert await find_session(session, session_id, end) is None


async def test_signing_out_ends_the_session_at_once(database: Database) -> None:
    """The row is gone, so a copied cookie is worthless too."""
    session_id = await _redeem(database, await _link(database))
    assert session_id is not None
    async with database.transaction() as session:
        await end_session(session, session_id)
        assert await find_session(session, session_id) is None


async def test_neither_token_nor_session_id_is_stored_in_clear(database: Database) -> None:
    """The tables hold SHA-256 values only."""
    token = await _link(database)
    session_id = await _redeem(database, token)
    assert session_id is not None
    async with database.read() as session:
        rows = [
            *(await session.execute(select(login_tokens))).all(),
            *(await session.execute(select(admin_sessions))).all(),
        ]
    assert len(rows) == 2
    assert token not in repr(rows)
    assert session_id not in repr(rows)


async def test_old_links_and_sessions_are_cleared_away(database: Database) -> None:
    """A new link removes expired ones; a new session removes expired ones."""
    await _redeem(database, await _link(database, NOW), NOW)
    later = NOW + timedelta(days=2)
    session_id = await _redeem(database, await _link(database, later), later)
    assert session_id is not None
    async with database.read() as session:
        assert len((await session.execute(select(login_tokens))).all()) == 1
        assert len((await session.execute(select(admin_sessions))).all()) == 1
