"""Secrets at rest: authenticated, versioned, and a wrong key refuses to start."""

import asyncio

import pytest

from app.cipher import Cipher, UndecryptableError, check_sentinel
from app.errors import ConfigError


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
