"""Own headers and credentials of an endpoint: sent, encrypted, masked, and never in the way."""

import base64

import pytest
from sqlalchemy import select

from app.errors import BadRequest
from app.outbox.message import Deferred, Delivered, ParkedReason
from app.webhooks.credentials import MASK, Basic, Bearer, check_auth, check_headers
from app.webhooks.endpoint import EndpointUpdate
from app.webhooks.endpoints import get_endpoint, update_endpoint
from app.webhooks.tables import endpoints
from tests.webhooks.factories import CIPHER, claim_for, endpoint_at

SECRETS = ("k-1234567", "pa:ss wörd", "t0k3n")


async def test_own_headers_and_credentials_are_on_every_request(
    database, settings, deliverer, receiver
):
    """Beside the standard's, which they can't replace."""
    made = await endpoint_at(
        database, settings, receiver.url_for("/hook"),
        headers={"X-Api-Key": SECRETS[0]}, auth=Basic("ada", SECRETS[1]),
    )  # fmt: skip
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    async with database.transaction() as session:
        wanted = EndpointUpdate(auth=Bearer(SECRETS[2]))
        await update_endpoint(session, CIPHER, settings, made.id, wanted)
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    async with database.transaction() as session:
        nothing = EndpointUpdate(auth=None, headers={})
        bare = await update_endpoint(session, CIPHER, settings, made.id, nothing)
    assert (bare.headers, bare.auth) == ({}, None)
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    first, second, third = (request.headers for request in receiver.requests)
    kind, _, pair = first["authorization"].partition(" ")
    assert (kind, base64.b64decode(pair).decode()) == ("Basic", f"ada:{SECRETS[1]}")
    assert first["x-api-key"] == second["x-api-key"] == SECRETS[0]
    assert second["authorization"] == f"Bearer {SECRETS[2]}"
    assert not {"x-api-key", "authorization"} & set(third)
    receiver.requests[0].verify(made.secret)


async def test_values_are_shown_to_nobody_and_stored_encrypted(database, settings):
    """Names stay readable; what the database holds can't be read without APP_SECRET_KEY."""
    made = await endpoint_at(
        database, settings, "https://example.com/", headers={"X-Key": SECRETS[0]},
        auth=Bearer(SECRETS[2]),
    )  # fmt: skip
    async with database.read() as session:
        shown = await get_endpoint(session, made.id)
        stored = (await session.execute(select(endpoints.c.headers, endpoints.c.auth))).one()
    for endpoint in (made, shown):
        assert endpoint.headers == {"x-key": MASK}
        assert endpoint.auth is not None
        assert endpoint.auth.kind == "bearer"
    for secret in SECRETS:
        assert secret not in str(stored)
        assert secret not in repr(made)


async def test_values_that_can_not_be_decrypted_park_the_message(database, settings, deliverer):
    """Half an authorization would be worse than none."""
    made = await endpoint_at(
        database, settings, "http://127.0.0.1:9/", headers={"x-key": SECRETS[0]}
    )
    async with database.transaction() as session:
        broken = {"x-key": base64.b64encode(b"\x01" + b"x" * 40).decode()}
        await session.execute(endpoints.update().values(headers=broken))
    outcome = await deliverer.deliver(claim_for(made.id))
    assert isinstance(outcome, Deferred)
    assert outcome.park is ParkedReason.UNDELIVERABLE


REFUSED = (
    "webhook-id", "Webhook-Signature", "webhook-anything", "Host", "content-length",
    "Transfer-Encoding", "connection", "content-type", "user-agent", "traceparent", "authorization",
    "Expect", "te", "upgrade", "keep-alive", "proxy-authorization", "", "a b", "a:b", "é", "a\n",
    "a\r\nb", "x" * 101,
)  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_header_that_is_ours_or_none_is_refused(name: str):
    """In any case of letters."""
    with pytest.raises(BadRequest, match="headers"):
        check_headers({name: "x"})


@pytest.mark.parametrize(
    "value", ["", " k3y", "k3y ", "k3y\r\nx: y", "k3y\nb", "k3y\x00", "k3yé", "k3y\x7f", "k" * 2001]
)
def test_a_value_that_would_break_its_line_is_refused_and_not_repeated(value: str):
    """The error names the header, never the value."""
    with pytest.raises(BadRequest) as caught:
        check_headers({"X-Key": value})
    assert "x-key" in caught.value.message
    assert "k3y" not in caught.value.message


def test_too_many_headers_and_the_same_one_twice_are_refused():
    """Case does not tell two headers apart."""
    check_headers({f"x-{n}": "v" for n in range(20)})
    with pytest.raises(BadRequest, match="21"):
        check_headers({f"x-{n}": "v" for n in range(21)})
    with pytest.raises(BadRequest, match="twice"):
        check_headers({"X-Key": "a", "x-key": "b"})


@pytest.mark.parametrize(
    "auth",
    [
        Basic("a:b", "c"), Basic("a\n", "c"), Basic("a", "\x7f"), Basic("a", "x" * 3000),
        Bearer(""), Bearer("a b"), Bearer("a\nb"), Bearer("é"), Bearer("x" * 2001),
    ],
)  # fmt: skip
def test_credentials_that_can_not_be_sent_are_refused(auth):
    """And never repeated."""
    with pytest.raises(BadRequest, match="auth"):
        check_auth(auth)
    check_auth(Basic("", ""))
