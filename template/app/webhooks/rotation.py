"""Keys of an endpoint: the first one, and its replacement while both sign.

Invariant: at any time exactly one key of an endpoint has no end; the others sign until theirs.
A key is stored encrypted, and what the receiver needs of it is told once. How requests are signed
changes by a rotation only, so that a receiver has time for it like for a new secret.
"""

from uuid import UUID

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.cipher import Cipher
from app.db.dialect import db_now, db_now_plus
from app.errors import BadRequest, Conflict
from app.ids import uuid7
from app.webhooks.endpoint import OVERLAP_SECONDS, Rotated
from app.webhooks.endpoint_rows import change, living, row_of
from app.webhooks.schemes import Signature
from app.webhooks.secrets import for_receiver, new_key, public_bytes
from app.webhooks.tables import endpoint_secrets

MAX_OVERLAP_SECONDS = 30 * 86_400.0
MAX_SECRETS = 5  # signatures on one request

s = endpoint_secrets.c


async def rotate_secret(
    session: AsyncSession,
    cipher: Cipher,
    endpoint_id: UUID,
    overlap_seconds: float = OVERLAP_SECONDS,
    tenant: str | None = None,
    *,
    signature: Signature | None = None,
) -> Rotated:
    """A new secret; requests carry both signatures until the overlap ends."""
    _check_overlap(overlap_seconds)
    row = await living(session, endpoint_id, tenant)
    mine = s.endpoint_id == endpoint_id
    await session.execute(delete(endpoint_secrets).where(mine, s.expires_at <= db_now()))
    count = select(func.count()).select_from(endpoint_secrets).where(mine)
    if (await session.execute(count)).scalar_one() >= MAX_SECRETS:
        raise Conflict(
            f"endpoint {endpoint_id} has {MAX_SECRETS} secrets that still sign",
            hint="wait until the overlap of an earlier rotation ends",
        )
    old = update(endpoint_secrets).where(mine, s.expires_at.is_(None))
    ended = await session.execute(
        old.values(expires_at=db_now_plus(overlap_seconds)).returning(s.expires_at)
    )
    signature = signature or Signature(row.signature)
    secret = await add_key(session, cipher, endpoint_id, signature)
    await change(session, endpoint_id, signature=signature.value)
    return Rotated(secret, ended.scalar_one())


def _check_overlap(seconds: float) -> None:
    if not 0 <= seconds <= MAX_OVERLAP_SECONDS:
        raise BadRequest(f"overlap_seconds: {seconds:g}; 0 to {MAX_OVERLAP_SECONDS:g} is allowed")


async def add_key(
    session: AsyncSession, cipher: Cipher, endpoint_id: UUID, signature: Signature
) -> str:
    """Store a new key without end; what the receiver verifies with."""
    key = new_key(signature)
    values = {
        "id": uuid7(),
        "endpoint_id": endpoint_id,
        "signature": signature.value,
        "ciphertext": cipher.encrypt(key),
    }
    await session.execute(insert(endpoint_secrets).values(values))
    return for_receiver(signature, key)


async def public_keys(
    session: AsyncSession, cipher: Cipher, endpoint_id: UUID
) -> list[tuple[UUID, bytes]]:
    """The v1a keys that sign now, the current one first; raises `NotFound`."""
    await row_of(session, endpoint_id, None)
    query = (
        select(s.id, s.ciphertext)
        .where(s.endpoint_id == endpoint_id, s.signature == Signature.V1A.value)
        .where(s.expires_at.is_(None) | (s.expires_at > db_now()))
        .order_by(s.expires_at.is_not(None), s.id.desc())
    )
    rows = await session.execute(query)
    return [(row.id, public_bytes(cipher.decrypt(row.ciphertext))) for row in rows]
