"""`Idempotency-Key`: the same request twice is one event, and both get the same answer.

    handler --work--> answer_once: claim the key -> work -> keep the answer -> one COMMIT

Invariant: the key's row, the business rows and the events commit together, so a key that is stored
is a request that was carried out. Of two requests at the same time the second one waits on the
unique index until the first has committed or rolled back (PostgreSQL), or for its turn to write
(SQLite). A refused request (4xx) stores nothing, so its key may be used again.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.params import HeaderParameter
from msgspec import Struct
from sqlalchemy import ColumnElement, and_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.auth import Caller
from app.api.tables import idempotency_keys as keys
from app.db.engine import Database
from app.errors import BadRequest, Unprocessable

MAX_KEY: Final = 255
REPLAYED = "Idempotent-Replayed"

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description="1 to 255 printable characters; the same request again gets the first answer",
    ),
]


class Identity(Struct, frozen=True):
    """What makes two requests the same one: caller, address, key; and the body's fingerprint."""

    tenant: str
    api_key_id: UUID
    route: str  # with the path itself: the same key on two orders is two requests
    key: str
    fingerprint: bytes

    def row(self) -> ColumnElement[bool]:
        """The row of this request in `idempotency_keys`."""
        return and_(
            keys.c.tenant == self.tenant,
            keys.c.api_key_id == self.api_key_id,
            keys.c.route == self.route,
            keys.c.key == self.key,
        )


async def provide_identity(
    request: Request[Any, Any, Any],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Identity | None:
    """`identity: NamedDependency[Identity | None]` of a handler; None without the header."""
    if idempotency_key is None:
        return None
    printable = idempotency_key.isascii() and idempotency_key.isprintable()
    if not printable or not 1 <= len(idempotency_key) <= MAX_KEY:
        raise BadRequest(f"Idempotency-Key has to be 1 to {MAX_KEY} printable ASCII characters")
    return Identity(
        tenant=caller.tenant or "",
        api_key_id=caller.key_id,
        route=f"{request.method} {request.scope['path']}",
        key=idempotency_key,
        fingerprint=hashlib.sha256(await request.body()).digest(),
    )


async def answer_once(
    database: Database,
    identity: Identity | None,
    work: Callable[[AsyncSession], Awaitable[Any]],
    status_code: int,
) -> Response[Any]:
    """Do `work` in one transaction and answer its result; a second time, answer what was kept.

    Raises `Unprocessable` when the key was used with another body, and whatever `work` raises.
    """
    async with database.transaction() as session:
        while identity is not None and not await _claim(session, identity):
            if (kept := await _kept(session, identity)) is not None:
                return kept
            # Pruned since the claim found it: free again.
        body = msgspec.json.encode(await work(session))
        if identity is not None:
            await session.execute(
                update(keys)
                .where(identity.row())
                .values(status_code=status_code, response_body=body)
            )
    return Response(body, status_code=status_code, media_type="application/json")


async def _claim(session: AsyncSession, identity: Identity) -> bool:
    insert = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    statement = insert(keys).values(msgspec.structs.asdict(identity)).on_conflict_do_nothing()
    return bool((await session.execute(statement.returning(keys.c.key))).first())


async def _kept(session: AsyncSession, identity: Identity) -> Response[Any] | None:
    columns = (keys.c.fingerprint, keys.c.status_code, keys.c.response_body)
    row = (await session.execute(select(*columns).where(identity.row()))).one_or_none()
    if row is None:
        return None
    if row.fingerprint != identity.fingerprint:
        raise Unprocessable(
            f"Idempotency-Key {identity.key!r} was used for another body",
            hint="a new request needs a new key",
        )
    return Response(
        row.response_body,
        status_code=row.status_code,
        media_type="application/json",
        headers={REPLAYED: "true"},
    )
