"""After APP_SECRET_KEY was replaced: everything stored is encrypted anew with the present key.

Invariant: any number of relays may go on meanwhile, because each step is a short transaction, and
a value is replaced only if it is still the one that was read. The sentinel is last: once it carries
the present key, nothing needs an earlier one.
"""

import base64
from typing import Any
from uuid import UUID

from msgspec import Struct
from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.cipher import Cipher, renew_sentinel
from app.db.engine import Database
from app.webhooks.tables import endpoint_secrets, endpoints

BATCH = 100

e, s = endpoints.c, endpoint_secrets.c


class Reencrypted(Struct, frozen=True):
    """How many rows were encrypted anew; 0 and 0 when all were already."""

    secrets: int
    endpoints: int


async def reencrypt(database: Database, cipher: Cipher) -> Reencrypted:
    """Encrypt what an earlier key wrote; may be cut off and run again.

    Raises `UndecryptableError` for a value that none of the keys reads.
    """
    counts = []
    for step in (_secrets, _endpoints):
        done, last, more = 0, UUID(int=0), True
        while more:
            async with database.transaction() as session:
                changed, last, more = await step(session, cipher, last)
            done += changed
        counts.append(done)
    await renew_sentinel(database, cipher)
    return Reencrypted(*counts)


Step = tuple[int, UUID, bool]  # rows changed, the last one looked at, whether there are more


async def _secrets(session: AsyncSession, cipher: Cipher, after: UUID) -> Step:
    query = select(s.id, s.ciphertext).where(s.id > after).order_by(s.id).limit(BATCH)
    rows = (await session.execute(query.with_for_update())).all()
    old = [row for row in rows if not cipher.is_current(row.ciphertext)]
    for row in old:
        anew = cipher.encrypt(cipher.decrypt(row.ciphertext))
        await session.execute(
            update(endpoint_secrets).where(s.id == row.id).values(ciphertext=anew)
        )
    return len(old), rows[-1].id if rows else after, len(rows) == BATCH


async def _endpoints(session: AsyncSession, cipher: Cipher, after: UUID) -> Step:
    query = (
        select(e.id, e.headers, e.auth)
        .where(e.id > after, or_(e.headers.is_not(None), e.auth.is_not(None)))
        .order_by(e.id)
        .limit(BATCH)
    )
    rows = (await session.execute(query.with_for_update())).all()
    changed = 0
    for row in rows:
        headers = {name: _anew(cipher, value) for name, value in (row.headers or {}).items()}
        auth = {
            kind: stored | {"value": _anew(cipher, stored["value"])}
            for kind, stored in (row.auth or {}).items()
        } or None
        values: dict[str, Any] = {"headers": headers or None, "auth": auth}
        if (values["headers"], auth) != (row.headers, row.auth):
            await session.execute(update(endpoints).where(e.id == row.id).values(values))
            changed += 1
    return changed, rows[-1].id if rows else after, len(rows) == BATCH


def _anew(cipher: Cipher, stored: str) -> str:
    raw = base64.b64decode(stored)
    if cipher.is_current(raw):
        return stored
    return base64.b64encode(cipher.encrypt(cipher.decrypt(raw))).decode()
