"""From the rows of an endpoint to what a request needs: URL parsed, keys decrypted, policy read.

Invariant: an endpoint that can't be used is a `Deferred` that parks the message with the reason,
never an exception and never a guess: a policy that can't be read is not replaced by the default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

import msgspec
import structlog
from sqlalchemy import and_, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.cipher import Cipher, UndecryptableError
from app.config import Settings
from app.db.dialect import db_now
from app.outbox.message import Deferred, ParkedReason
from app.outbox.policy import RetryPolicy
from app.webhooks.credentials import client_certificate, opened
from app.webhooks.endpoint_rules import longest_timeout
from app.webhooks.retry import policy_of
from app.webhooks.schemes import Signature
from app.webhooks.sender import Target
from app.webhooks.signing import Signer, signer_of
from app.webhooks.tables import endpoint_secrets, endpoints
from app.webhooks.traffic import Limits, Shared

DELETED = Deferred("the endpoint is deleted", park=ParkedReason.ENDPOINT_DELETED)
DISABLED = Deferred("the endpoint is disabled", park=ParkedReason.ENDPOINT_DISABLED)
BROKEN = Deferred("the endpoint's stored data can't be used", park=ParkedReason.UNDELIVERABLE)

logger = structlog.get_logger("app.webhooks")

e, s = endpoints.c, endpoint_secrets.c
Rows = Sequence[Any]  # of `read_rows`
_COLUMNS = (
    e.id, e.url, e.status, e.version, e.timeout_seconds, e.retry, e.rate_per_second,
    e.max_in_flight, e.breaker_until, e.failing_since, e.owner, e.owned_until, e.headers, e.auth,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ready:
    """An endpoint that can be sent to."""

    endpoint_id: UUID
    version: int
    secret_ids: tuple[UUID, ...]
    target: Target
    signers: tuple[Signer, ...]  # of the current secret first
    headers: Mapping[str, str]  # the owner's own
    policy: RetryPolicy
    limits: Limits


async def read_rows(session: AsyncSession, ids: Sequence[UUID]) -> dict[UUID, Rows]:
    """Of each endpoint one row for each secret that signs now, the current one first."""
    signing = and_(s.endpoint_id == e.id, or_(s.expires_at.is_(None), s.expires_at > db_now()))
    secret = (s.id.label("secret_id"), s.signature, s.ciphertext)
    query = (
        select(*_COLUMNS, db_now().label("clock"), *secret)
        .select_from(endpoints.outerjoin(endpoint_secrets, signing))
        .where(e.id.in_(ids))
        .order_by(e.id, s.expires_at.is_not(None), s.id.desc())
    )
    rows = (await session.execute(query)).all()
    return {key: list(group) for key, group in groupby(rows, lambda row: row.id)}


def is_current(ready: Ready, rows: Rows) -> bool:
    """Whether `rows` say nothing that `ready` does not know."""
    return ready.version == rows[0].version and ready.secret_ids == _secret_ids(rows)


def prepare(rows: Rows, cipher: Cipher, settings: Settings) -> Ready | Deferred:
    """What a request to this endpoint needs, whether it is enabled or disabled."""
    if not rows or rows[0].status == "deleted":
        return DELETED
    first = rows[0]
    try:
        timeout = first.timeout_seconds or settings.request_timeout_seconds
        target = Target.of(
            first.url,
            total_seconds=min(timeout, longest_timeout(settings)),
            connect_seconds=settings.connect_timeout_seconds,
            client=client_certificate(cipher, first.auth),
        )
        signers = tuple(
            signer_of(Signature(row.signature), cipher.decrypt(row.ciphertext)) for row in rows
        )
        headers = opened(cipher, first.headers, first.auth)
        policy = policy_of(first.retry)
    except (UndecryptableError, msgspec.ValidationError, ValueError, TypeError) as error:
        logger.error("endpoint is unusable", endpoint=str(first.id), error=str(error)[:200])
        return BROKEN
    limits = Limits(first.rate_per_second, first.max_in_flight)
    return Ready(
        first.id, first.version, _secret_ids(rows), target, signers, headers, policy, limits
    )


def shared_of(rows: Rows, read_at: float) -> Shared:
    """The state that relays share; `read_at`: monotonic time before the rows were read."""
    first = rows[0]

    def here(moment: datetime | None) -> float | None:
        return None if moment is None else read_at + (moment - first.clock).total_seconds()

    return Shared(
        here(first.breaker_until), here(first.failing_since),
        first.owner, here(first.owned_until) or 0.0,
    )  # fmt: skip


def _secret_ids(rows: Rows) -> tuple[UUID, ...]:
    return tuple(row.secret_id for row in rows)
