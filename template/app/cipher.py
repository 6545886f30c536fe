"""Encryption at rest: endpoint secrets are stored under a key derived from APP_SECRET_KEY.

While that is being replaced, APP_SECRET_KEY_OLD names other keys that may still be read with;
`db reencrypt` makes them unnecessary (`webhooks/reencryption.py`).

Invariant: a wrong APP_SECRET_KEY refuses to start. Without `check_sentinel` it would be noticed
only when a message is signed, and every message would fail. The key is derived once per process:
derivation per call is slow enough to be a way to stall the application.
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite

from app.config import Settings
from app.db.engine import Database
from app.db.tables import key_sentinel
from app.errors import AppError, ConfigError

_VERSION = b"\x01"  # AES-256-GCM, 12 bytes of nonce; a new scheme gets a new first byte
_NONCE_BYTES = 12
_PURPOSE = b"app: endpoint secrets v1"
_SENTINEL = b"sentinel"
_SENTINEL_ID = 1


class UndecryptableError(AppError):
    """A stored secret can't be read with this APP_SECRET_KEY."""


class Cipher:
    """Encrypts and authenticates small values with the key of this installation."""

    def __init__(self, secret_key: str, *others: str) -> None:
        """Encrypt with `secret_key`; decrypt with it or with one of the others."""
        self._aead, *self._others = (_derived(key) for key in (secret_key, *others))

    @classmethod
    def of(cls, settings: Settings) -> "Cipher":
        """The cipher of this installation."""
        return cls(settings.secret_key, *settings.secret_key_old.split())

    def encrypt(self, plain: bytes) -> bytes:
        """Version, nonce and ciphertext; different at each call."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._aead.encrypt(nonce, plain, _VERSION)

    def decrypt(self, stored: bytes) -> bytes:
        """The plain value; raises `UndecryptableError` for another key or a changed value."""
        version = stored[:1]
        if version != _VERSION:
            raise UndecryptableError(f"a stored secret has the unknown version {version.hex()!r}")
        for aead in (self._aead, *self._others):
            plain = _opened(aead, stored)
            if plain is not None:
                return plain
        raise UndecryptableError(
            "a stored secret can't be decrypted",
            hint="restore the APP_SECRET_KEY that it was written with",
        )

    def is_current(self, stored: bytes) -> bool:
        """Whether it was encrypted with the present key, not with one of the others."""
        return _opened(self._aead, stored) is not None


def _derived(key: str) -> AESGCM:
    return AESGCM(HKDF(SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode()))


def _opened(aead: AESGCM, stored: bytes) -> bytes | None:
    nonce, ciphertext = stored[1 : 1 + _NONCE_BYTES], stored[1 + _NONCE_BYTES :]
    try:
        return aead.decrypt(nonce, ciphertext, _VERSION)
    except (InvalidTag, ValueError):
        return None


async def check_sentinel(database: Database, cipher: Cipher) -> None:
    """Prove that this key is the database's; at the first start, make it so.

    Raises `ConfigError` when the database was written with another APP_SECRET_KEY.
    """
    query = select(key_sentinel.c.ciphertext).where(key_sentinel.c.id == _SENTINEL_ID)
    async with database.read() as session:
        stored = (await session.execute(query)).scalar_one_or_none()
    if stored is None:
        insert = sqlite.insert if database.is_sqlite else postgresql.insert
        row = {"id": _SENTINEL_ID, "ciphertext": cipher.encrypt(_SENTINEL)}
        async with database.transaction() as session:
            # Several processes may start at once: the first one's row counts.
            await session.execute(insert(key_sentinel).values(row).on_conflict_do_nothing())
            stored = (await session.execute(query)).scalar_one()
    try:
        cipher.decrypt(stored)
    except UndecryptableError:
        raise ConfigError(
            "APP_SECRET_KEY is not the key that this database's secrets are encrypted with",
            hint="restore the earlier one in .env or in the environment, or give it too, as "
            "APP_SECRET_KEY_OLD",
        ) from None


async def renew_sentinel(database: Database, cipher: Cipher) -> None:
    """Make the present key the database's own, so that others are not needed to start."""
    row = key_sentinel.c.id == _SENTINEL_ID
    async with database.transaction() as session:
        values = {"ciphertext": cipher.encrypt(_SENTINEL)}
        await session.execute(update(key_sentinel).where(row).values(values))
