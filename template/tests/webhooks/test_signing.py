"""Signatures: the published vectors, the official library, and our own strict verification."""

import asyncio
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from app.ids import uuid7
from app.webhooks.schemes import Signature
from app.webhooks.secrets import (
    InvalidSecretError,
    decode_private,
    decode_public,
    decode_secret,
    for_receiver,
    new_key,
    new_secret,
)
from app.webhooks.signing import Ed25519Signer, HmacSigner, sign, signature_headers, signer_of
from app.webhooks.verify import Problem, VerificationError, Verifier

NOW = 1_800_000_000
VECTORS = [
    pytest.param(
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        id="python-library",
    ),
    pytest.param(
        "C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
        1649367553,
        b'{"email":"test@example.com","username":"test_user"}',
        "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        id="rust-library",
    ),
]


def v1(*secrets: str) -> list[HmacSigner]:
    return [HmacSigner(decode_secret(secret)) for secret in secrets]


@pytest.mark.parametrize(("secret", "message_id", "timestamp", "body", "signature"), VECTORS)
async def test_the_published_vectors_come_out(secret, message_id, timestamp, body, signature):
    """Vectors (a) and (b) of the standard's own libraries, signed and verified."""
    assert await sign(v1(secret), message_id, timestamp, body) == signature
    headers = {
        "Webhook-Id": message_id,
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": signature,
    }
    verified = Verifier([f"whsec_{secret}"]).verify(headers, body, now=timestamp + 1)
    assert (verified.webhook_id, verified.timestamp) == (message_id, timestamp)


async def test_the_official_library_accepts_our_headers_under_either_secret_of_a_rotation():
    """While a secret is replaced, both the old and the new one verify the same request."""
    old, new = new_secret(), new_secret()
    body = '{"type":"order.paid","data":{"name":"Zoë"}}'.encode()
    headers = await signature_headers(uuid7(), body, v1(new, old), int(time.time()))
    for secret in (old, new):
        assert Webhook(secret).verify(body, headers)["type"] == "order.paid"
        Verifier([secret]).verify(headers, body)


def test_our_verification_accepts_what_the_official_library_signs():
    """The other direction: their signature, our verification."""
    secret = new_secret()
    signature = Webhook(secret).sign("msg_1", datetime.fromtimestamp(NOW, UTC), "{}")
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    assert Verifier([secret]).verify(headers, b"{}", now=NOW).webhook_id == "msg_1"


def test_every_new_secret_is_another_one_of_32_bytes():
    """Secrets are `whsec_` and 32 random bytes."""
    made = {new_secret() for _ in range(50)}
    assert len(made) == 50
    assert all(s.startswith("whsec_") and len(decode_secret(s)) == 32 for s in made)


@pytest.mark.parametrize(
    "text", ["", "whsec_", "whsec_abc", "whsec_!!!!", "whsec_" + "A" * 24, "whsec_" + "é" * 32]
)
def test_a_text_that_is_no_secret_is_refused(text):
    """Nothing is decoded leniently: a wrong secret would sign what nobody can verify."""
    with pytest.raises(InvalidSecretError):
        decode_secret(text)


SECRET = new_secret()


def _headers(**changes: str | None) -> dict[str, str]:
    good = asyncio.run(sign(v1(SECRET), "msg_1", NOW, b"{}"))
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": good}
    changed = headers | {k.replace("_", "-"): v for k, v in changes.items()}
    return {k: v for k, v in changed.items() if v is not None}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"webhook_id": None}, Problem.MISSING_HEADER),
        ({"webhook_timestamp": None}, Problem.MISSING_HEADER),
        ({"webhook_signature": None}, Problem.MISSING_HEADER),
        ({"webhook_id": "a.b"}, Problem.BAD_HEADER),
        ({"webhook_id": ""}, Problem.BAD_HEADER),
        ({"webhook_timestamp": f"{NOW}.0"}, Problem.BAD_HEADER),
        ({"webhook_timestamp": f" {NOW}"}, Problem.BAD_HEADER),
        ({"webhook_timestamp": "1_800_000_000"}, Problem.BAD_HEADER),
        ({"webhook_timestamp": "1e9"}, Problem.BAD_HEADER),
        ({"webhook_timestamp": "-5"}, Problem.BAD_HEADER),
        ({"webhook_timestamp": "\uff11\uff18\uff10\uff10"}, Problem.BAD_HEADER),
        ({"webhook_timestamp": str(NOW - 301)}, Problem.TOO_OLD),
        ({"webhook_timestamp": str(NOW + 301)}, Problem.TOO_NEW),
        ({"webhook_timestamp": str(NOW + 1)}, Problem.BAD_SIGNATURE),
        ({"webhook_id": "msg_2"}, Problem.BAD_SIGNATURE),
        ({"webhook_signature": "v1a,AAAA"}, Problem.NO_SUPPORTED_SIGNATURE),
        ({"webhook_signature": "v2,AAAA"}, Problem.NO_SUPPORTED_SIGNATURE),
        ({"webhook_signature": ""}, Problem.NO_SUPPORTED_SIGNATURE),
        ({"webhook_signature": "v1,!!!"}, Problem.BAD_SIGNATURE),
        ({"webhook_signature": "v1,"}, Problem.BAD_SIGNATURE),
        ({"webhook_signature": "v1,é"}, Problem.BAD_SIGNATURE),
    ],
)
def test_a_bad_request_is_refused_with_its_reason(changes, problem):
    """Each way to be wrong has its own reason."""
    with pytest.raises(VerificationError) as caught:
        Verifier([SECRET]).verify(_headers(**changes), b"{}", now=NOW)
    assert caught.value.problem is problem


def test_a_malformed_entry_does_not_hide_the_good_one_behind_it():
    """A list is tried to its end."""
    good = _headers()["webhook-signature"]
    headers = _headers(webhook_signature=f"v1,!!! nonsense v1a,AAAA {good}")
    assert Verifier([new_secret(), SECRET]).verify(headers, b"{}", now=NOW).webhook_id == "msg_1"


def test_a_changed_body_is_refused():
    """The signature covers every byte of the body."""
    with pytest.raises(VerificationError):
        Verifier([SECRET]).verify(_headers(), b"{} ", now=NOW)


@settings(deadline=None)
@given(
    headers=st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "x"]), st.text()
    ),
    body=st.binary(),
)
def test_hostile_input_raises_nothing_but_the_one_error(headers, body):
    """One exception family, whatever arrives."""
    with pytest.raises(VerificationError):
        Verifier([SECRET]).verify(headers, body, now=NOW)


PRIVATE = (
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)
PUBLIC = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
V1A = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
V1A_HEADERS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": V1A,
}
V1A_BODY = b'{"test": 2432232314}'


async def test_the_published_ed25519_vector_comes_out():
    """Vector (c), from the tests of another sender: ed25519 has one signature for each message."""
    key = decode_private(PRIVATE)
    assert for_receiver(Signature.V1A, key) == PUBLIC
    headers = V1A_HEADERS
    text = await sign([Ed25519Signer(key)], headers["webhook-id"], 1614265330, V1A_BODY)
    assert text == V1A
    verified = Verifier([PUBLIC]).verify(headers, V1A_BODY, now=1614265331)
    assert verified.webhook_id == headers["webhook-id"]


@pytest.mark.parametrize("held", [["whsec"], ["whpk"], ["whsec", "whpk"]])
async def test_a_request_with_both_kinds_is_verified_by_either(held):
    """As during the change from one kind to the other."""
    keys = {kind: new_key(kind) for kind in Signature}
    signers = [signer_of(kind, key) for kind, key in keys.items()]
    headers = await signature_headers(uuid7(), b"{}", signers, NOW)
    texts = {"whsec": Signature.V1, "whpk": Signature.V1A}
    secrets = [for_receiver(texts[name], keys[texts[name]]) for name in held]
    Verifier(secrets).verify(headers, b"{}", now=NOW)
    with pytest.raises(VerificationError):
        Verifier(secrets).verify(headers, b"{ }", now=NOW)


@pytest.mark.parametrize(
    ("signature", "problem"),
    [
        ("v1," + V1A[4:], Problem.NO_SUPPORTED_SIGNATURE),
        ("v1a," + V1A[4:-4] + "AA==", Problem.BAD_SIGNATURE),
        ("v1a,", Problem.BAD_SIGNATURE),
        ("v1a,!", Problem.BAD_SIGNATURE),
        ("v1a,AAAA", Problem.BAD_SIGNATURE),
        ("v1b,AAAA", Problem.NO_SUPPORTED_SIGNATURE),
    ],
)
def test_a_bad_v1a_signature_is_refused_with_its_reason(signature, problem):
    """Cut, changed, of another kind; and a good one behind it is still found."""
    headers = V1A_HEADERS | {"webhook-signature": signature}
    with pytest.raises(VerificationError) as caught:
        Verifier([PUBLIC]).verify(headers, V1A_BODY, now=1614265330)
    assert caught.value.problem is problem
    headers["webhook-signature"] += f" {V1A}"
    Verifier([PUBLIC]).verify(headers, V1A_BODY, now=1614265330)


@pytest.mark.parametrize("text", ["whpk_", "whpk_AAAA", "whpk_!", PUBLIC[:-4], PUBLIC + "AAAA"])
def test_a_text_that_is_no_public_key_is_refused(text):
    """Length and alphabet are exact."""
    with pytest.raises(InvalidSecretError):
        decode_public(text)
    with pytest.raises(InvalidSecretError):
        Verifier([text])


@pytest.mark.parametrize("text", ["whsk_", "whsk_AAAA", PRIVATE[:-4] + "AA==", "whsk_" + "é" * 44])
def test_a_text_that_is_no_private_key_is_refused(text):
    """Also one whose second half is not the public key of the first."""
    with pytest.raises(InvalidSecretError):
        decode_private(text)


def test_the_private_key_is_no_key_to_verify_with():
    """Whoever has it should not: it says which one is meant."""
    with pytest.raises(InvalidSecretError, match="whpk_"):
        Verifier([PRIVATE])
