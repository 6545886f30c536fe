"""Secrets at rest: authenticated, versioned, and a wrong key refuses to start."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import select

from app.cipher import Cipher, UndecryptableError, check_sentinel
from app.errors import ConfigError
from app.outbox.message import Delivered
from app.webhooks.credentials import Bearer
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.reencryption import Reencrypted, reencrypt
from app.webhooks.secrets import decode_secret
from app.webhooks.tables import endpoint_secrets
from tests.conftest import SECRET
from tests.webhooks.factories import CIPHER, claim_for, endpoint_at


def test_what_is_encrypted_comes_back_and_never_looks_the_same_twice():
    """Encryption is randomised and reversible."""
    cipher = Cipher("k" * 32)
    first, second = cipher.encrypt(b"whsec"), cipher.encrypt(b"whsec")
    assert first != second
    assert b"whsec" not in first
    assert cipher.decrypt(first) == cipher.decrypt(second) == b"whsec"


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x02" + b"x" * 40, b"\x01" + b"x" * 40])
def test_a_damaged_value_is_an_error_not_garbage(damage):
    """Every change of a stored value is noticed."""
    with pytest.raises(UndecryptableError):
        Cipher("k" * 32).decrypt(damage)


def test_another_key_can_not_read_it():
    """The key decides."""
    with pytest.raises(UndecryptableError):
        Cipher("a" * 32).decrypt(Cipher("b" * 32).encrypt(b"x"))


async def test_a_wrong_secret_key_refuses_to_start(database):
    """The first start writes the sentinel; from then on only the same key starts."""
    await check_sentinel(database, Cipher("right" * 8))
    await check_sentinel(database, Cipher("right" * 8))
    with pytest.raises(ConfigError, match="APP_SECRET_KEY") as caught:
        await check_sentinel(database, Cipher("wrong" * 8))
    assert ".env" in caught.value.hint


async def test_two_first_starts_at_once_agree_on_one_key(database):
    """Of two processes with different keys exactly one starts."""
    results = await asyncio.gather(
        *(check_sentinel(database, Cipher(key * 32)) for key in "ab"), return_exceptions=True
    )
    assert [type(r) for r in results if r is not None] == [ConfigError]


async def test_a_key_is_replaced_while_everything_runs(database, settings, deliverer, receiver):
    """Read with either, encrypted anew, then the old key is not needed any more."""
    old, new = Cipher(SECRET), Cipher("new" * 12, SECRET)
    made = await endpoint_at(
        database, settings, receiver.url_for("/"), headers={"x-key": "k3y"}, auth=Bearer("t0k3n")
    )
    await check_sentinel(database, old)
    await check_sentinel(database, new)
    with pytest.raises(ConfigError, match="APP_SECRET_KEY"):
        await check_sentinel(database, Cipher("new" * 12))
    assert await reencrypt(database, new) == Reencrypted(1, 1)
    assert await reencrypt(database, new) == Reencrypted(0, 0)
    alone = Cipher("new" * 12)
    await check_sentinel(database, alone)
    with pytest.raises(ConfigError):
        await check_sentinel(database, old)
    sending = WebhookDeliverer(database, alone, settings)
    assert isinstance(await sending.deliver(claim_for(made.id)), Delivered)
    await sending.close()
    (got,) = receiver.requests
    got.verify(made.secret)
    assert (got.headers["x-key"], got.headers["authorization"]) == ("k3y", "Bearer t0k3n")


async def test_a_value_that_no_key_reads_stops_the_reencryption_and_changes_nothing(
    database, settings
):
    """The batch is one transaction; nothing is thrown away."""
    made = await endpoint_at(database, settings, "https://example.com/")
    with pytest.raises(UndecryptableError):
        await reencrypt(database, Cipher("new" * 12, "other" * 9))
    async with database.read() as session:
        (row,) = (await session.execute(select(endpoint_secrets))).all()
    assert CIPHER.decrypt(row.ciphertext) == decode_secret(made.secret)


def test_other_keys_are_separated_by_spaces(settings):
    """As many as there are; the first is the one that encrypts."""
    several = replace(settings, secret_key_old="one  two")
    stored = Cipher("two").encrypt(b"x")
    cipher = Cipher.of(several)
    assert cipher.decrypt(stored) == b"x"
    assert not cipher.is_current(stored)
    assert cipher.is_current(cipher.encrypt(b"x"))
