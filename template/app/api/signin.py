"""Sign-in to the admin pages: one-time link -> session. `my-app admin link` makes the link.

Invariant: a link's token works once, for 10 minutes, and a session's id is made here at sign-in:
what a browser brings along is looked up, never adopted, so nobody can plant an id and wait for an
operator to sign in under it. Both are stored as SHA-256 of 256 random bits; a stolen backup opens
nothing. Never log a token or an id. Where to change what: the two spans are the constants below.
"""

import secrets
from datetime import datetime, timedelta
from hashlib import sha256

from msgspec import Struct
from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.elements import ColumnElement

from app.api.tables import admin_sessions, login_tokens
from app.db.dialect import at, db_now_plus

LINK_SECONDS = 10 * 60
SESSION_SECONDS = 12 * 3600
_TOKEN_BYTES = 32


class AdminSession(Struct, frozen=True):
    """A person who is signed in; `csrf_token` proves that a form came from our own page."""

    csrf_token: str
    expires_at: datetime


async def create_login_token(session: AsyncSession, now: datetime | None = None) -> str:
    """A new one-time token for `/admin/sign-in?token=…`, valid for 10 minutes. Never commits."""
    await session.execute(delete(login_tokens).where(login_tokens.c.expires_at <= at(now)))
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    await session.execute(
        insert(login_tokens).values(hash=_hash(token), expires_at=_in(LINK_SECONDS, now))
    )
    return token


async def redeem_token(
    session: AsyncSession, token: str, now: datetime | None = None
) -> str | None:
    """The id of a new session, or None for a token that is unknown, used or too old.

    Using the token is one statement, so of two requests with the same link one gets in.
    """
    used = await session.execute(
        update(login_tokens)
        .where(
            login_tokens.c.hash == _hash(token),
            login_tokens.c.used_at.is_(None),
            login_tokens.c.expires_at > at(now),
        )
        .values(used_at=at(now))
        .returning(login_tokens.c.hash)
    )
    if used.first() is None:
        return None
    await session.execute(delete(admin_sessions).where(admin_sessions.c.expires_at <= at(now)))
    session_id = secrets.token_urlsafe(_TOKEN_BYTES)
    await session.execute(
        insert(admin_sessions).values(
            hash=_hash(session_id),
            csrf_token=secrets.token_urlsafe(_TOKEN_BYTES),
            expires_at=_in(SESSION_SECONDS, now),
        )
    )
    return session_id


async def find_session(
    session: AsyncSession, session_id: str, now: datetime | None = None
) -> AdminSession | None:
    """The session with this id, unless it is unknown or over."""
    found = await session.execute(
        select(admin_sessions.c.csrf_token, admin_sessions.c.expires_at).where(
            admin_sessions.c.hash == _hash(session_id), admin_sessions.c.expires_at > at(now)
        )
    )
    row = found.first()
    return None if row is None else AdminSession(row.csrf_token, row.expires_at)


async def end_session(session: AsyncSession, session_id: str) -> None:
    """Forget a session at once; an unknown id is no error."""
    await session.execute(delete(admin_sessions).where(admin_sessions.c.hash == _hash(session_id)))


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _in(seconds: float, now: datetime | None) -> ColumnElement[datetime] | datetime:
    return db_now_plus(seconds) if now is None else now + timedelta(seconds=seconds)
