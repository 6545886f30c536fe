"""Standard Webhooks 1.0 signatures (v1, HMAC-SHA256): pure functions over bytes.

Invariant: what is signed are the exact bytes that are sent, and a secret is its decoded bytes, not
its text; getting either wrong makes every standard library reject the request. While a secret is
being replaced the request carries one signature for each: a receiver accepts if any one matches.
"""

import binascii
import hmac
import secrets
from collections.abc import Sequence
from uuid import UUID

from app.errors import AppError

SECRET_PREFIX = "whsec_"  # noqa: S105 - the public prefix of every secret
_SECRET_BYTES = 32
_ALLOWED_BYTES = range(24, 65)


class InvalidSecretError(AppError):
    """A text is no Standard Webhooks secret."""


def new_secret() -> str:
    """`whsec_` and the base64 form of 32 random bytes."""
    return encode_secret(secrets.token_bytes(_SECRET_BYTES))


def encode_secret(key: bytes) -> str:
    """The form in which people and libraries handle a secret."""
    return SECRET_PREFIX + binascii.b2a_base64(key, newline=False).decode()


def decode_secret(secret: str) -> bytes:
    """The bytes of a secret, prefix optional; raises `InvalidSecretError`, never guesses."""
    try:
        key = binascii.a2b_base64(secret.removeprefix(SECRET_PREFIX), strict_mode=True)
    except ValueError:
        raise InvalidSecretError("a secret is whsec_ and base64 text") from None
    if len(key) not in _ALLOWED_BYTES:
        raise InvalidSecretError(f"the secret has {len(key)} bytes; 24 to 64 are allowed")
    return key


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: `v1,…` for each key, separated by a space."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(
        "v1," + binascii.b2a_base64(hmac.digest(key, signed, "sha256"), newline=False).decode()
        for key in keys
    )


def signature_headers(
    message_id: UUID, body: bytes, keys: Sequence[bytes], timestamp: int
) -> dict[str, str]:
    """The three headers of the standard; `timestamp` is the second of this attempt."""
    text = str(message_id)
    return {
        "webhook-id": text,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(keys, text, timestamp, body),
    }
