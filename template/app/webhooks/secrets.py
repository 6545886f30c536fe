"""Secrets and keys of endpoints: making them, and the texts in which people handle them.

    v1   whsec_…   one secret for both sides, 32 bytes
    v1a  whsk_…    the private key; stays here. The receiver gets whpk_…, the public one

Invariant: a text is decoded strictly or refused, never guessed: a key read wrong would sign what
nobody can verify.
"""

import binascii
import secrets
from typing import assert_never

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.errors import AppError
from app.webhooks.schemes import Signature

SECRET_PREFIX = "whsec_"  # noqa: S105 - the public prefix of every secret
PUBLIC_PREFIX = "whpk_"
PRIVATE_PREFIX = "whsk_"
KEY_BYTES = 32
_SECRET_BYTES = range(24, 65)


class InvalidSecretError(AppError):
    """A text is no Standard Webhooks secret or key."""


def new_key(signature: Signature) -> bytes:
    """A key to store, encrypted: for v1 the secret, for v1a the private key."""
    del signature  # both are 32 random bytes
    return secrets.token_bytes(KEY_BYTES)


def for_receiver(signature: Signature, key: bytes) -> str:
    """What the receiver verifies with: `whsec_…`, or the public key `whpk_…`."""
    match signature:
        case Signature.V1:
            return SECRET_PREFIX + base64_of(key)
        case Signature.V1A:
            return PUBLIC_PREFIX + base64_of(public_bytes(key))
        case _:
            assert_never(signature)


def public_bytes(private: bytes) -> bytes:
    """The public key of a private one."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def new_secret() -> str:
    """`whsec_` and the base64 form of 32 random bytes."""
    return SECRET_PREFIX + base64_of(secrets.token_bytes(KEY_BYTES))


def decode_secret(secret: str) -> bytes:
    """The bytes of a v1 secret, prefix optional; raises `InvalidSecretError`, never guesses."""
    key = _decoded(secret.removeprefix(SECRET_PREFIX), "a secret is whsec_ and base64 text")
    if len(key) not in _SECRET_BYTES:
        raise InvalidSecretError(f"the secret has {len(key)} bytes; 24 to 64 are allowed")
    return key


def decode_public(text: str) -> bytes:
    """The bytes of `whpk_…`; raises `InvalidSecretError`."""
    rule = f"a public key is {PUBLIC_PREFIX} and base64 text of {KEY_BYTES} bytes"
    key = _decoded(text.removeprefix(PUBLIC_PREFIX), rule)
    if len(key) != KEY_BYTES:
        raise InvalidSecretError(rule)
    return key


def decode_private(text: str) -> bytes:
    """The 32 bytes of `whsk_…`, which holds them alone or with the public key behind them."""
    rule = f"a private key is {PRIVATE_PREFIX} and base64 text of 32 or 64 bytes"
    both = _decoded(text.removeprefix(PRIVATE_PREFIX), rule)
    key, public = both[:KEY_BYTES], both[KEY_BYTES:]
    if len(key) != KEY_BYTES or public not in (b"", public_bytes(key)):
        raise InvalidSecretError(rule)
    return key


def base64_of(raw: bytes) -> str:
    """Base64 in the usual alphabet, padded."""
    return binascii.b2a_base64(raw, newline=False).decode()


def _decoded(text: str, rule: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise InvalidSecretError(rule) from None
