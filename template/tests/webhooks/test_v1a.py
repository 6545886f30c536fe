"""Endpoints signed with ed25519: made, rotated, changed from v1; and the key set they publish."""

import base64
from collections.abc import AsyncIterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.config import Settings
from app.outbox.message import Delivered
from app.webhooks.endpoints import get_endpoint, rotate_secret
from app.webhooks.schemes import Signature
from app.webhooks.verify import VerificationError, Verifier
from tests.support.site import Site, opened
from tests.webhooks.factories import CIPHER, claim_for, endpoint_at


def signed_by(request, *secrets: str) -> bool:
    """Whether a receiver that holds these accepts the request."""
    try:
        Verifier(secrets).verify(request.headers, request.body)
    except VerificationError:
        return False
    return True


async def test_a_v1a_endpoint_tells_its_public_key_and_signs_with_the_private_one(
    database, settings, deliverer, receiver
):
    """The receiver can verify and can't sign."""
    made = await endpoint_at(database, settings, receiver.url_for("/"), signature=Signature.V1A)
    assert made.secret.startswith("whpk_")
    assert made.signature is Signature.V1A
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    (got,) = receiver.requests
    assert got.headers["webhook-signature"].startswith("v1a,")
    assert signed_by(got, made.secret)


@pytest.mark.parametrize("first", list(Signature))
@pytest.mark.parametrize("then", list(Signature))
async def test_a_rotation_signs_with_both_whatever_their_kinds(
    database, settings, deliverer, receiver, first, then
):
    """Also the change from one kind to the other; after the overlap only the new one signs."""
    made = await endpoint_at(database, settings, receiver.url_for("/"), signature=first)
    async with database.transaction() as session:
        rotated = await rotate_secret(session, CIPHER, made.id, 3600, signature=then)
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    async with database.transaction() as session:
        last = await rotate_secret(session, CIPHER, made.id, 0)
        assert (await get_endpoint(session, made.id)).signature is then
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    both, after = receiver.requests
    assert signed_by(both, made.secret)
    assert signed_by(both, rotated.secret)
    assert signed_by(after, last.secret)
    assert not signed_by(after, rotated.secret)


@pytest.fixture
async def site(settings: Settings) -> AsyncIterator[Site]:
    async with opened(settings) as site:
        yield site


async def test_the_key_set_has_the_public_keys_that_sign_now(site: Site):
    """Without a key of ours, current one first, both as JSON Web Key and as `whpk_`."""
    admin = await site.headers()
    body = {"url": "https://example.com/", "types": ["*"], "signature": "v1a"}
    made = (await site.client.post("/api/endpoints", json=body, headers=admin)).json()
    address = f"/.well-known/webhook-keys/{made['id']}"
    answer = await site.client.get(address)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "public, max-age=300")
    (key,) = answer.json()["keys"]
    assert key["public_key"] == made["secret"]
    assert (key["kty"], key["crv"], key["use"]) == ("OKP", "Ed25519", "sig")
    raw = base64.urlsafe_b64decode(key["x"] + "=")
    Ed25519PublicKey.from_public_bytes(raw)
    assert base64.b64encode(raw).decode() == made["secret"].removeprefix("whpk_")
    rotate = f"/api/endpoints/{made['id']}/rotate-secret"
    rotated = (await site.client.post(rotate, json={}, headers=admin)).json()
    keys = (await site.client.get(address)).json()["keys"]
    assert [k["public_key"] for k in keys] == [rotated["secret"], made["secret"]]


async def test_the_key_set_of_a_v1_endpoint_is_empty_and_an_unknown_one_is_404(site: Site):
    """A shared secret is published nowhere; after deletion nothing is left to publish."""
    admin = await site.headers()
    body = {"url": "https://example.com/", "types": ["*"]}
    made = (await site.client.post("/api/endpoints", json=body, headers=admin)).json()
    address = f"/.well-known/webhook-keys/{made['id']}"
    assert (await site.client.get(address)).json() == {"keys": []}
    rotate = f"/api/endpoints/{made['id']}/rotate-secret"
    changed = await site.client.post(rotate, json={"signature": "v1a"}, headers=admin)
    assert changed.json()["secret"].startswith("whpk_")
    assert len((await site.client.get(address)).json()["keys"]) == 1
    await site.client.delete(f"/api/endpoints/{made['id']}", headers=admin)
    assert (await site.client.get(address)).json() == {"keys": []}
    unknown = "/.well-known/webhook-keys/01980000-0000-7000-8000-000000000001"
    assert (await site.client.get(unknown)).status_code == 404


async def test_how_requests_are_signed_is_not_changed_in_passing(site: Site):
    """Only by a rotation, which has an overlap; a kind that is none is refused."""
    admin = await site.headers()
    body = {"url": "https://example.com/", "types": ["*"]}
    made = (await site.client.post("/api/endpoints", json=body, headers=admin)).json()
    address = f"/api/endpoints/{made['id']}"
    for method, path, fields in (
        ("PATCH", address, {"signature": "v1a"}),
        ("POST", f"{address}/rotate-secret", {"signature": "v2"}),
        ("POST", "/api/endpoints", body | {"signature": "rsa"}),
        ("POST", "/api/endpoints", body | {"headers": {"host": "x"}}),
        ("POST", "/api/endpoints", body | {"headers": {"x": 5}}),
        ("PATCH", address, {"headers": None}),
        ("PATCH", address, {"auth": {"kind": "digest"}}),
        ("PATCH", address, {"auth": {"kind": "basic", "username": "a"}}),
    ):
        answer = await site.client.request(method, path, json=fields, headers=admin)
        assert answer.status_code == 400, (fields, answer.text)
