"""Replacing a secret: two sign until the overlap ends."""

import pytest
from sqlalchemy import select, update

from app.errors import BadRequest, Conflict
from app.webhooks.endpoints import (
    rotate_secret,
)
from app.webhooks.secrets import decode_secret
from app.webhooks.tables import endpoint_secrets
from tests.webhooks.test_endpoints import CIPHER, count, make


async def test_a_rotation_keeps_the_old_secret_until_the_overlap_ends(database, settings):
    """The new secret has no end; the old one has."""
    made = await make(database, settings)
    async with database.transaction() as session:
        rotated = await rotate_secret(session, CIPHER, made.id, 3600)
    assert rotated.secret != made.secret
    async with database.read() as session:
        query = select(endpoint_secrets.c.ciphertext, endpoint_secrets.c.expires_at)
        ends = {CIPHER.decrypt(c): end for c, end in await session.execute(query)}
    assert ends == {
        decode_secret(made.secret): rotated.old_secret_until,
        decode_secret(rotated.secret): None,
    }


async def test_rotations_without_end_are_refused_and_ended_secrets_are_erased(database, settings):
    """At most five signatures on a request; an ended secret goes at the next rotation."""
    made = await make(database, settings)
    async with database.transaction() as session:
        for _ in range(4):
            await rotate_secret(session, CIPHER, made.id, 3600)
        with pytest.raises(Conflict, match="5 secrets"):
            await rotate_secret(session, CIPHER, made.id, 3600)
        past = update(endpoint_secrets).where(endpoint_secrets.c.expires_at.is_not(None))
        await session.execute(past.values(expires_at=made.created_at))
        await rotate_secret(session, CIPHER, made.id, 0)
    assert await count(database, endpoint_secrets) == 2


async def test_an_overlap_out_of_range_is_refused(database, settings):
    """Zero to thirty days."""
    made = await make(database, settings)
    async with database.transaction() as session:
        for seconds in (-1, float("nan"), float("inf"), 30 * 86_400 + 1):
            with pytest.raises(BadRequest, match="overlap_seconds"):
                await rotate_secret(session, CIPHER, made.id, seconds)
    assert await count(database, endpoint_secrets) == 1
