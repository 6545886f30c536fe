"""`/.well-known/webhook-keys/{endpoint id}`: the public keys of a v1a endpoint, for its receiver.

A JSON Web Key Set with the same keys also as `whpk_…`. Public on purpose: it holds public keys, and
a receiver fetches it before it can trust anything. Invariant: a set holds the keys of one endpoint.
With a set for all, whoever receives webhooks of one tenant could pass them on to another's receiver
and have them accepted there.
"""

import base64
from uuid import UUID

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import Struct

from app.api.auth import PUBLIC
from app.cipher import Cipher
from app.db.engine import Database
from app.webhooks.rotation import public_keys
from app.webhooks.secrets import PUBLIC_PREFIX, base64_of

CACHE_SECONDS = 300  # far below any sensible overlap of a rotation


class WebKey(Struct, frozen=True, kw_only=True):
    """One ed25519 public key (RFC 8037), and the same as Standard Webhooks writes it."""

    kid: UUID
    x: str
    public_key: str  # whpk_…
    kty: str = "OKP"
    crv: str = "Ed25519"
    alg: str = "EdDSA"
    use: str = "sig"


class WebKeySet(Struct, frozen=True):
    """The keys that sign now, the current one first; empty for a v1 endpoint."""

    keys: list[WebKey]


@get(
    "/.well-known/webhook-keys/{endpoint_id:uuid}",
    opt=PUBLIC,
    tags=["endpoints"],
    summary="Public keys of an endpoint",
)
async def webhook_keys(
    endpoint_id: FromPath[UUID],
    database: NamedDependency[Database],
    cipher: NamedDependency[Cipher],
) -> Response[WebKeySet]:
    """What a receiver verifies v1a signatures with; during a rotation the old key too."""
    async with database.read() as session:
        found = await public_keys(session, cipher, endpoint_id)
    keys = [
        WebKey(
            kid=key_id,
            x=base64.urlsafe_b64encode(raw).decode().rstrip("="),
            public_key=PUBLIC_PREFIX + base64_of(raw),
        )
        for key_id, raw in found
    ]
    headers = {"cache-control": f"public, max-age={CACHE_SECONDS}"}
    return Response(WebKeySet(keys), headers=headers)
