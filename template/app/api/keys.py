"""API keys: made, found, listed, revoked.

Invariant: the key itself is shown once, at creation; the database holds its SHA-256. A fast hash is
enough because a key is 256 random bits, not a password. A revoked key stays, as evidence.
"""

import hashlib
import secrets
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from msgspec import Struct
from sqlalchemy import Row, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.tables import api_keys
from app.db.dialect import at, db_now_plus
from app.errors import BadRequest, NotFound
from app.ids import uuid7

PREFIX = "sk_"
SHOWN_CHARACTERS = 8  # of the key, kept in clear so that a person recognises it
LAST_USED_EVERY_SECONDS = 60
MAX_TENANT = 128
MAX_DESCRIPTION = 200


class Scope(StrEnum):
    """What a key may do; `admin` includes the other two."""

    EVENTS_WRITE = "events:write"
    READ = "read"
    ADMIN = "admin"

    def allows(self, needed: "Scope") -> bool:
        """Whether a key of this scope may call a route that needs `needed`."""
        return self is Scope.ADMIN or self is needed


class ApiKey(Struct, frozen=True):
    """A key as people see it; never the key itself."""

    id: UUID
    prefix: str
    scope: Scope
    tenant: str | None  # null: an operator's key
    description: str
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


_COLUMNS = tuple(api_keys.c[name] for name in ApiKey.__struct_fields__)


def _key(row: Row[Any]) -> ApiKey:
    values = dict(row._mapping)
    return ApiKey(**values | {"scope": Scope(values["scope"])})


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _check(name: str, text: str, limit: int) -> str:
    if len(text) > limit or not (text.isprintable() or text == ""):
        raise BadRequest(f"{name} {text!r}: at most {limit} printable characters")
    return text


async def create_key(
    session: AsyncSession, scope: str, tenant: str | None = None, description: str = ""
) -> tuple[str, ApiKey]:
    """A new key (its only appearance) and what is stored about it. Without tenant: an operator's.

    Raises `BadRequest` for an unknown scope, or a tenant or description that is too long.
    """
    if scope not in set(Scope):
        raise BadRequest(f"scope {scope!r} is none of {', '.join(Scope)}")
    key = PREFIX + secrets.token_urlsafe(32)
    statement = (
        insert(api_keys)
        .values(
            id=uuid7(),
            hash=_hash(key),
            prefix=key[: len(PREFIX) + SHOWN_CHARACTERS],
            scope=scope,
            tenant=None if tenant is None else _check("tenant", tenant, MAX_TENANT),
            description=_check("description", description, MAX_DESCRIPTION),
        )
        .returning(*_COLUMNS)
    )
    return key, _key((await session.execute(statement)).one())


async def list_keys(session: AsyncSession) -> list[ApiKey]:
    """Every key, also revoked ones, oldest first."""
    rows = await session.execute(select(*_COLUMNS).order_by(api_keys.c.id))
    return [_key(row) for row in rows]


async def find_key(session: AsyncSession, key: str) -> ApiKey | None:
    """The stored side of a key that may be used; None when it is unknown or revoked."""
    if not key.startswith(PREFIX):
        return None
    statement = select(*_COLUMNS).where(
        api_keys.c.hash == _hash(key), api_keys.c.revoked_at.is_(None)
    )
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else _key(row)


async def revoke_key(session: AsyncSession, key_id: UUID, now: datetime | None = None) -> ApiKey:
    """Refuse the key from now on; a second time changes nothing. Raises `NotFound`."""
    await session.execute(
        update(api_keys)
        .where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
        .values(revoked_at=at(now))
    )
    row = (await session.execute(select(*_COLUMNS).where(api_keys.c.id == key_id))).one_or_none()
    if row is None:
        raise NotFound(f"there is no API key {key_id}")
    return _key(row)


async def touch_key(session: AsyncSession, key_id: UUID) -> None:
    """Note that the key was used, at most once a minute. May be lost; nothing depends on it."""
    seen = api_keys.c.last_used_at
    stale = or_(seen.is_(None), seen < db_now_plus(-LAST_USED_EVERY_SECONDS))
    await session.execute(
        update(api_keys).where(api_keys.c.id == key_id, stale).values(last_used_at=at(None))
    )
