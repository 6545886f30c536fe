"""Standard Webhooks 1.0 signatures: v1 (HMAC-SHA256) and v1a (ed25519). Pure, over bytes.

Invariant: what is signed are the exact bytes that are sent, and a secret is its decoded bytes, not
its text; getting either wrong makes every standard library reject the request. While a secret is
being replaced the request carries one signature for each: a receiver accepts if any one matches.
Where to change what: a key that another machine keeps (KMS) is another `Signer` in `signer_of`.
"""

import hmac
from collections.abc import Sequence
from typing import Protocol, assert_never
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.webhooks.schemes import Signature
from app.webhooks.secrets import base64_of


class Signer(Protocol):
    """One key of the sender. `sign` may wait for another machine; it never blocks."""

    async def sign(self, signed: bytes) -> str:
        """One entry of `webhook-signature`: version, comma, base64."""
        ...


class HmacSigner:
    """v1: the receiver has the same secret, and could sign too."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")

    async def sign(self, signed: bytes) -> str:
        """`v1,…`."""
        code = self._keyed.copy()  # the key is not worked in anew for each message
        code.update(signed)
        return "v1," + base64_of(code.digest())


class Ed25519Signer:
    """v1a: the receiver has only the public key."""

    def __init__(self, key: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(key)

    async def sign(self, signed: bytes) -> str:
        """`v1a,…`."""
        return "v1a," + base64_of(self._key.sign(signed))


def signer_of(signature: Signature, key: bytes) -> Signer:
    """The signer for a stored key; raises ValueError for bytes that are none."""
    match signature:
        case Signature.V1:
            return HmacSigner(key)
        case Signature.V1A:
            return Ed25519Signer(key)
        case _:
            assert_never(signature)


async def sign(signers: Sequence[Signer], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: an entry of each signer, separated by a space."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join([await signer.sign(signed) for signer in signers])


async def signature_headers(
    message_id: UUID, body: bytes, signers: Sequence[Signer], timestamp: int
) -> dict[str, str]:
    """The three headers of the standard; `timestamp` is the second of this attempt."""
    text = str(message_id)
    return {
        "webhook-id": text,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": await sign(signers, text, timestamp, body),
    }
