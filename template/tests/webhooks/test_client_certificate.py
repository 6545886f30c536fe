"""Mutual TLS: an endpoint's requests show its certificate, and nobody reads its key again."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from app.cipher import Cipher
from app.errors import BadRequest
from app.outbox.message import Delivered, ErrorKind, Failed
from app.webhooks.client_certificate import check_certificate
from app.webhooks.credentials import Bearer
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.endpoint import EndpointUpdate
from app.webhooks.endpoints import get_endpoint, update_endpoint
from app.webhooks.reencryption import Reencrypted, reencrypt
from app.webhooks.tables import endpoints
from tests.conftest import SECRET
from tests.support.certificate import self_signed
from tests.support.receiver import Receiver
from tests.webhooks.factories import CIPHER, claim_for, endpoint_at


@pytest.fixture
def client(tmp_path: Path) -> str:
    """Certificate and key as one text."""
    folder = tmp_path / "client"
    folder.mkdir()
    certificate, key = self_signed(folder, "sender.example")
    return certificate.read_text() + key.read_text()


@pytest.fixture
def demanding(tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's side of TLS that takes nobody without that certificate."""
    certificate, key = self_signed(tmp_path, "localhost")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=client[: client.index("-----BEGIN PRIVATE")])
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # what our side trusts
    return server


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_requests_show_the_certificate_until_it_is_taken_away(
    database, settings, deliverer, client, demanding
):
    """Beside other credentials, which a change of this one leaves alone."""
    async with Receiver(tls=demanding) as receiver:
        url = receiver.url_for("/", host="localhost")
        made = await endpoint_at(
            database, settings, url, client_certificate=client, auth=Bearer("t0k3n")
        )
        for _ in range(2):
            assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
        assert receiver.requests[0].headers["authorization"] == "Bearer t0k3n"
        async with database.transaction() as session:
            without = EndpointUpdate(client_certificate=None)
            bare = await update_endpoint(session, CIPHER, settings, made.id, without)
        assert (bare.client_certificate, bare.auth is None) == (None, False)
        outcome = await deliverer.deliver(claim_for(made.id))
        assert isinstance(outcome, Failed)
        assert outcome.kind in (ErrorKind.TLS, ErrorKind.RESET, ErrorKind.CONNECT)
        assert len(receiver.requests) == 2


async def test_name_and_end_are_shown_and_the_text_is_stored_encrypted(database, settings, client):
    """Also after the key of the installation was replaced."""
    made = await endpoint_at(database, settings, "https://example.com/", client_certificate=client)
    async with database.read() as session:
        shown = (await get_endpoint(session, made.id)).client_certificate
        (stored,) = await session.scalars(select(endpoints.c.auth))
    assert shown is not None
    assert shown.subject == "CN=sender.example"
    assert shown.expires_at > datetime.now(UTC)
    assert "BEGIN" not in str(stored)
    assert "BEGIN" not in repr(made)
    new = Cipher("new" * 12, SECRET)
    assert await reencrypt(database, new) == Reencrypted(1, 1)
    deliverer = WebhookDeliverer(database, Cipher("new" * 12), settings)
    known = await deliverer._known.get(claim_for(made.id).destination)
    assert known.target.origin.client == client.encode()
    await deliverer.close()


def test_what_is_no_certificate_with_its_key_is_refused_and_not_repeated(client, tmp_path):
    """Each half alone, another's key, a text of any kind, one that has expired."""
    assert check_certificate(client).subject == "CN=sender.example"
    certificate, key = client.split("-----BEGIN PRIVATE", 1)
    key = "-----BEGIN PRIVATE" + key
    foreign = self_signed(tmp_path, "other.example")[1].read_text()
    broken = (
        "", "nonsense", certificate, key, certificate + foreign, client.replace("M", "\u00e9"),
        client.replace("-----END CERTIFICATE-----", ""), client + "x" * 40_000,
    )  # fmt: skip
    for text in broken:
        with pytest.raises(BadRequest, match="client_certificate") as caught:
            check_certificate(text)
        assert "BEGIN" not in caught.value.message
    with pytest.raises(BadRequest, match="expired"):
        check_certificate(client, now=datetime.now(UTC) + timedelta(days=1))
