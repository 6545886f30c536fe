"""Encryption at rest: endpoint secrets are stored under a key derived from APP_SECRET_KEY.

Invariant: a wrong APP_SECRET_KEY refuses to start. Without `check_sentinel` it would be noticed
only when a message is signed, and every message would fail. The key is derived once per process:
derivation per call is slow enough to be a way to stall the application.
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

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

    def __init__(self, secret_key: str) -> None:
        derived = HKDF(SHA256(), length=32, salt=None, info=_PURPOSE).derive(secret_key.encode())
        self._aead = AESGCM(derived)

    def encrypt(self, plain: bytes) -> bytes:
        """Version, nonce and ciphertext; different at each call."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._aead.encrypt(nonce, plain, _VERSION)

    def decrypt(self, stored: bytes) -> bytes:
        """The plain value; raises `UndecryptableError` for another key or a changed value."""
        version, rest = stored[:1], stored[1:]
        if version != _VERSION:
            raise UndecryptableError(f"a stored secret has the unknown version {version.hex()!r}")
        try:
            return self._aead.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _VERSION)
        except (InvalidTag, ValueError):
            raise UndecryptableError(
                "a stored secret can't be decrypted",
                hint="restore the APP_SECRET_KEY that it was written with",
            ) from None


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
            hint="restore the earlier APP_SECRET_KEY in .env or in the environment",
        ) from None
