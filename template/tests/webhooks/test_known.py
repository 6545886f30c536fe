"""What the deliverer knows of endpoints: fresh within a second, read once for many."""

import asyncio
import time
from collections import Counter

import pytest
from sqlalchemy import event, text, update

from app.cipher import Cipher
from app.db.engine import Database
from app.ids import uuid7
from app.outbox.message import (
    Deferred,
    Delivered,
    ParkedReason,
    webhook_destination,
)
from app.outbox.policy import DEFAULT_POLICY, Ladder
from app.webhooks import known
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.endpoint import EndpointUpdate
from app.webhooks.endpoints import (
    rotate_secret,
    update_endpoint,
)
from app.webhooks.ready import Ready
from app.webhooks.tables import endpoint_secrets, endpoints
from tests.conftest import settings_for
from tests.relay.conftest import eventually
from tests.webhooks.factories import CIPHER, claim_for, endpoint_at


async def test_an_endpoint_that_never_existed_parks_as_deleted(database, deliverer):
    """A row can only be missing because somebody removed it by hand."""
    outcome = await deliverer.deliver(claim_for(uuid7()))
    assert isinstance(outcome, Deferred)
    assert outcome.park is ParkedReason.ENDPOINT_DELETED


async def test_a_malformed_destination_parks_and_never_raises(database, deliverer):
    """`webhook:` with something that is no id."""
    outcome = await deliverer.deliver(claim_for(uuid7(), destination="webhook:not-an-id"))
    assert isinstance(outcome, Deferred)
    assert outcome.park is ParkedReason.ENDPOINT_DELETED


@pytest.mark.parametrize(
    "damage",
    [
        update(endpoints).values(retry={"kind": "nonsense"}),
        update(endpoint_secrets).values(ciphertext=b"\x01damaged"),
    ],
    ids=["policy", "secret"],
)
async def test_damaged_data_parks_the_message_instead_of_guessing(
    database, settings, deliverer, receiver, damage
):
    """Neither an unsigned request nor a schedule that nobody chose."""
    made = await endpoint_at(database, settings, receiver.url)
    async with database.transaction() as session:
        await session.execute(damage)
    outcome = await deliverer.deliver(claim_for(made.id))
    assert isinstance(outcome, Deferred)
    assert outcome.park is ParkedReason.UNDELIVERABLE
    assert receiver.requests == []


async def test_during_a_rotation_either_secret_verifies_and_afterwards_only_the_new(
    database, settings, deliverer, receiver
):
    """Both sign until the overlap ends; the receiver changes over when it likes."""
    made = await endpoint_at(database, settings, receiver.url)
    async with database.transaction() as session:
        rotated = await rotate_secret(session, CIPHER, made.id, 3600)
    await deliverer.deliver(claim_for(made.id))
    receiver.requests[0].verify(made.secret)
    receiver.requests[0].verify(rotated.secret)
    async with database.transaction() as session:
        old = update(endpoint_secrets).where(endpoint_secrets.c.expires_at.is_not(None))
        await session.execute(old.values(expires_at=made.created_at))
    await deliverer.deliver(claim_for(made.id))
    receiver.requests[1].verify(rotated.secret)
    assert receiver.requests[1].headers["webhook-signature"].count("v1,") == 1


async def test_a_change_is_noticed_within_a_second_without_being_told(database, settings, receiver):
    """Another process changed the URL: knowledge is never older than a second."""
    made = await endpoint_at(database, settings, receiver.url_for("/old"))
    deliverer = WebhookDeliverer(database, CIPHER, settings)
    await deliverer.deliver(claim_for(made.id))
    async with database.transaction() as session:
        moved = EndpointUpdate(url=receiver.url_for("/new"))
        await update_endpoint(session, CIPHER, settings, made.id, moved)
    deadline = time.monotonic() + 5
    while not receiver.at("/new"):
        assert time.monotonic() < deadline
        await deliverer.deliver(claim_for(made.id))
    old = receiver.at("/old")
    assert old[-1].at - old[0].at < 3  # a second, and what a busy machine adds
    await deliverer.close()


async def test_many_messages_of_many_endpoints_need_one_read(database, settings, receiver):
    """Knowledge is shared and read in one statement, not once for each message."""
    made = [await endpoint_at(database, settings, receiver.url) for _ in range(10)]
    deliverer = WebhookDeliverer(database, CIPHER, settings, fresh_seconds=60)
    reads = []
    event.listen(
        database.reader.sync_engine,
        "before_cursor_execute",
        lambda *a: reads.append(a[2]) if "endpoint_secrets" in a[2] else None,
    )
    claims = [claim_for(endpoint.id) for endpoint in made for _ in range(5)]
    outcomes = await asyncio.gather(*(deliverer.deliver(claim) for claim in claims))
    assert all(isinstance(outcome, Delivered) for outcome in outcomes)
    assert len(receiver.requests) == 50
    assert len(reads) <= 2
    await deliverer.close()


async def test_the_policy_of_the_endpoint_is_known_after_an_attempt(
    database, settings, deliverer, receiver
):
    """The relay asks for it to decide what comes next."""
    ladder = Ladder(delays_seconds=(60.0, 300.0))
    made = await endpoint_at(database, settings, receiver.url, retry=ladder)
    other = await endpoint_at(database, settings, receiver.url)
    for endpoint in (made, other):
        await deliverer.deliver(claim_for(endpoint.id))
    assert deliverer.policy(webhook_destination(made.id)) == ladder
    assert deliverer.policy(webhook_destination(other.id)) == DEFAULT_POLICY
    assert deliverer.policy("webhook:unknown") == DEFAULT_POLICY


class Turns(Cipher):
    """Decrypts, and notes in which turn of the event loop."""

    def __init__(self, secret_key: str) -> None:
        super().__init__(secret_key)
        self.turn, self.turns = 0, []

    def decrypt(self, stored: bytes) -> bytes:
        self.turns.append(self.turn)
        return super().decrypt(stored)

    async def count(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


async def test_many_endpoints_read_for_the_first_time_leave_turns_to_others(database, settings):
    """Whatever else the process does goes on between sixteen and sixteen."""
    cipher = Turns(settings.secret_key)
    made = [await endpoint_at(database, settings, "http://127.0.0.1:9/") for _ in range(50)]
    reading = known.KnownEndpoints(database, cipher, settings)
    counting = asyncio.create_task(cipher.count())
    states = [reading.get(webhook_destination(one.id)) for one in made]
    assert all(isinstance(state, Ready) for state in await asyncio.gather(*states))
    counting.cancel()
    assert len(cipher.turns) == 50
    assert max(Counter(cipher.turns).values()) <= known.PREPARED_AT_ONCE


async def test_a_database_without_tables_defers_and_spends_nothing(tmp_path):
    """An internal fault is no failure of the endpoint."""
    empty = settings_for(f"sqlite+aiosqlite:///{tmp_path}/empty.db")
    database = Database(empty)
    deliverer = WebhookDeliverer(database, CIPHER, empty)
    outcome = await deliverer.deliver(claim_for(uuid7()))
    assert isinstance(outcome, Deferred)
    assert outcome.park is None
    await deliverer.close()
    await database.dispose()


async def test_a_database_that_does_not_answer_holds_no_sender(
    postgresql_url, receiver, monkeypatch
):
    """The read is given up in time, and the next one works: the connection is not needed again."""
    monkeypatch.setattr(known, "READ_SECONDS", 0.3)
    settings = settings_for(postgresql_url)
    database = Database(settings)
    made = await endpoint_at(database, settings, receiver.url)
    deliverer = WebhookDeliverer(database, CIPHER, settings)
    async with database.transaction() as session:
        await session.execute(text("LOCK TABLE endpoints IN ACCESS EXCLUSIVE MODE"))
        claims = [claim_for(made.id) for _ in range(3)]
        outcomes = await asyncio.gather(*(deliverer.deliver(claim) for claim in claims))
        assert [type(outcome) for outcome in outcomes] == [Deferred] * 3
        assert {outcome.park for outcome in outcomes} == {None}
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
    await deliverer.close()
    await database.dispose()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_who_joins_a_read_that_is_given_up_is_told_to_wait_like_the_others(
    database, settings, deliverer, receiver, monkeypatch
):
    """The first one's time is over while the second still waits: a read that was cancelled for one
    must not cancel the other, whose sender would end, and with it the relay.
    """
    monkeypatch.setattr(known, "READ_SECONDS", 1.0)
    made = await endpoint_at(database, settings, receiver.url)
    async with database.transaction() as session:
        await session.execute(text("LOCK TABLE endpoints IN ACCESS EXCLUSIVE MODE"))
        first = asyncio.create_task(deliverer.deliver(claim_for(made.id)))
        await eventually(lambda: deliverer._known._reading is not None)
        monkeypatch.setattr(known, "READ_SECONDS", 60.0)  # the second gives nothing up
        second = asyncio.create_task(deliverer.deliver(claim_for(made.id)))
        assert [await first, await second] == [known.UNREAD, known.UNREAD]
    assert isinstance(await deliverer.deliver(claim_for(made.id)), Delivered)
