"""`endpoints test`: one signed ping, explained in words."""

from dataclasses import replace

import pytest

from app.cipher import Cipher
from app.errors import Conflict, NotFound
from app.ids import uuid7
from app.webhooks import ping
from app.webhooks.endpoint import EndpointCreate
from app.webhooks.endpoints import create_endpoint, delete_endpoint, disable_endpoint
from tests.conftest import SECRET
from tests.support.postgres import free_port
from tests.support.receiver import Answer, Fault, Receiver

CIPHER = Cipher(SECRET)


async def make(database, settings, url: str, tenant: str = "", **fields):
    wanted = EndpointCreate(url=url, types=["*"], **fields)
    async with database.transaction() as session:
        return await create_endpoint(session, CIPHER, settings, wanted, tenant)


async def test_a_ping_is_signed_like_a_message_and_a_success_says_so(database, settings):
    """The receiver can check its verification before any order exists."""
    async with Receiver() as receiver:
        made = await make(database, settings, receiver.url)
        report = await ping.test_endpoint(database, CIPHER, settings, made.id)
        (got,) = receiver.requests
    body = got.verify(made.secret)
    assert (body["type"], body["data"]) == ("endpoint.test", {"endpoint_id": str(made.id)})
    assert got.webhook_id == str(report.webhook_id)
    assert (report.delivered, report.status_code, report.response_body) == (True, 200, "ok")
    assert report.explanation == "The receiver answered 200 OK: a message would be delivered."


ANSWERS = [
    (Answer(404), "parked at once"),
    (Answer(401, body=b"bad signature"), "does it have this endpoint's present secret"),
    (Answer(301), "Redirects are not followed"),
    (Answer(410), "disable the endpoint"),
    (Answer(500), "tried again"),
    (Answer(fault=Fault.SILENT), "within 0.3 s"),
    (Answer(fault=Fault.RESET), "closed the connection"),
    (Answer(fault=Fault.GARBAGE), "not HTTP"),
]


async def test_each_answer_is_explained(database, settings):
    """What it was, what a message would become, what to look at."""
    async with Receiver() as receiver:
        for answer, words in ANSWERS:
            url = receiver.on("/hook", answer)
            made = await make(database, settings, url, timeout_seconds=0.3)
            report = await ping.test_endpoint(database, CIPHER, settings, made.id)
            assert not report.delivered
            assert words in report.explanation
            assert report.response_body in ("", "ok", "bad signature")


async def test_a_receiver_that_is_down_is_explained(database, settings):
    """The commonest case in development."""
    made = await make(database, settings, f"http://127.0.0.1:{free_port()}/")
    report = await ping.test_endpoint(database, CIPHER, settings, made.id)
    assert (report.delivered, report.error_kind) == (False, "connect")
    assert "Is the receiver running" in report.explanation


async def test_a_forbidden_address_is_not_called(database, settings):
    """Made in development, then private targets were closed."""
    strict = replace(settings, allow_private_targets=False)
    async with Receiver() as receiver:
        made = await make(database, settings, receiver.url)
        report = await ping.test_endpoint(database, CIPHER, strict, made.id)
        assert receiver.connections == 0
    assert report.error_kind == "forbidden"
    assert "It was not called, 127.0.0.1 is a forbidden target (loopback)" in report.explanation


async def test_a_disabled_endpoint_can_be_tested_and_a_deleted_one_not(database, settings):
    """One tests before one enables."""
    async with Receiver() as receiver:
        made = await make(database, settings, receiver.url, tenant="acme")
        async with database.transaction() as session:
            await disable_endpoint(session, made.id, "paused")
        report = await ping.test_endpoint(database, CIPHER, settings, made.id, "acme")
        assert report.delivered
        assert "is disabled" in report.explanation
        with pytest.raises(NotFound):
            await ping.test_endpoint(database, CIPHER, settings, made.id, "other")
        with pytest.raises(NotFound):
            await ping.test_endpoint(database, CIPHER, settings, uuid7())
        async with database.transaction() as session:
            await delete_endpoint(session, made.id)
        with pytest.raises(Conflict, match="deleted"):
            await ping.test_endpoint(database, CIPHER, settings, made.id)
        assert len(receiver.requests) == 1
