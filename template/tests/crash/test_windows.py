"""The eight places where a duplicate, or a loss, can come in; each hit at exactly that point.

Seven are closed by a unique index or a write that only the present owner makes. The eighth is open
for every sender: it repeats, with the same webhook-id, and the receiver's inbox closes it.
"""

import asyncio
import subprocess
import sys

import httpx
import pytest

from app.db.engine import Database
from app.outbox.messages import retry
from tests.crash.conftest import (
    LINGER_INSIDE_A_CLAIM,
    all_are,
    execute,
    is_claiming,
    publish_many,
    rows,
    until,
)
from tests.crash.plant import LEASE_SECONDS, START_SECONDS, fetched
from tests.support.postgres import free_port
from tests.support.processes import Application
from tests.support.proxy import Proxy
from tests.support.receiver import Answer, Receiver

LONG = LEASE_SECONDS + START_SECONDS
ATTEMPTS = "SELECT number, outcome FROM attempts ORDER BY message_id, number"


def subscribe(application: Application, receiver: Receiver, *answers: Answer) -> None:
    """The receiver gets everything."""
    url = receiver.on("/hook", *answers) if answers else receiver.url_for("/hook")
    application.run("endpoints", "add", url, "--types", "*")


async def test_window_1_the_api_dies_after_the_commit_and_before_its_answer(
    application: Application, postgresql: Database
):
    """The client repeats its POST with the same Idempotency-Key: the first event, not a second."""
    port = free_port()
    key = application.run("keys", "create", "--scope", "events:write").strip()
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "checkout-1"}
    body = {"type": "crash.posted", "data": {"number": 1}}

    async def posted(to: int) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, headers=headers, timeout=60) as client:
            return await client.post(f"http://127.0.0.1:{to}/api/events", json=body)

    async def up() -> bool:
        return await fetched(f"http://127.0.0.1:{port}/health/ready") is not None

    async def stored() -> bool:
        return await rows(postgresql, "SELECT count(*) FROM events") == [(1,)]

    async with Proxy(port) as proxy:
        with application.start("serve", "--port", str(port)) as first:
            await until(up, START_SECONDS)
            proxy.silence(only_answers=True)
            unanswered = asyncio.create_task(posted(proxy.port))
            await until(stored, START_SECONDS)
            first.kill()
            proxy.cut()
            with pytest.raises(httpx.TransportError):
                await unanswered
    with application.start("serve", "--port", str(port)):
        await until(up, START_SECONDS)
        again = await posted(port)
    assert again.status_code == 201
    assert again.headers["Idempotent-Replayed"] == "true"
    ids = await rows(postgresql, "SELECT id FROM events")
    assert [str(id_) for (id_,) in ids] == [again.json()["id"]]


async def test_window_2_a_webhook_that_is_sent_again_acts_once(
    application: Application, postgresql: Database
):
    """The receiver has acted when the sender's relay dies; the repetition meets its inbox."""
    inbox = pytest.importorskip("app.inbox.inbox", reason="the project has no inbox")
    async with Receiver() as receiver:
        subscribe(application, receiver, Answer(hold=asyncio.Event()), Answer(200))
        await publish_many(postgresql, 1)
        acted: list[bool] = []

        async def act() -> None:
            async with postgresql.transaction() as session:
                id_ = receiver.requests[-1].webhook_id
                acted.append(await inbox.once(session, "shop", id_))

        with application.start("relay") as first:
            await receiver.wait_for(1, timeout=START_SECONDS)
            await act()
            first.kill()
        with application.start("relay"):
            await receiver.wait_for(2, timeout=LONG)
            await act()
    assert acted == [True, False]


ANNOUNCE = """
import asyncio, os, signal
from app.config import load_settings
from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.publish import publish
from app.relay.wakeup import Notifier

async def main():
    database = Database(load_settings())
    database.on_commit.append(lambda names: os.kill(os.getpid(), signal.SIGKILL))
    await Notifier(database).start()
    async with database.transaction() as session:
        await publish(session, Event(type="order.paid", data={}))

asyncio.run(main())
"""


async def test_window_3_the_api_dies_between_the_commit_and_the_announcement(
    application: Application, postgresql: Database
):
    """Nobody is told. The relay's poll finds the row all the same, and sends it once."""
    async with Receiver() as receiver:
        subscribe(application, receiver)
        with application.start("relay") as relay:
            ended = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", ANNOUNCE], env=application.environment,
                cwd=application.folder, check=False, timeout=START_SECONDS,
            )  # fmt: skip
            assert ended.returncode == -9
            await receiver.wait_for(1, timeout=START_SECONDS)
            await until(lambda: all_are(postgresql, "sent"), START_SECONDS)
            assert relay.stop() == 0
        assert len(receiver.requests) == 1


async def test_window_4_a_relay_dies_between_its_claim_and_the_request(
    application: Application, postgresql: Database
):
    """The claim is committed and nothing went out: after the lease another sends it, once."""
    await execute(postgresql, LINGER_INSIDE_A_CLAIM)
    async with Receiver() as receiver:
        subscribe(application, receiver)
        await publish_many(postgresql, 1)
        with application.start("relay") as first:
            await until(lambda: is_claiming(postgresql), START_SECONDS)
            first.freeze()
            await until(lambda: all_are(postgresql, "claimed"), START_SECONDS)
            first.kill()
        with application.start("relay"):
            await receiver.wait_for(1, timeout=LONG)
            await until(lambda: all_are(postgresql, "sent"), START_SECONDS)
        assert len(receiver.requests) == 1
    assert await rows(postgresql, ATTEMPTS) == [(1, "lost"), (2, "delivered")]


async def test_window_5_an_announcement_that_comes_many_times_is_one_message(
    application: Application, postgresql: Database
):
    """Two relays hear of the same messages again and again, at the same time: one claims each."""
    count = 20
    async with Receiver() as receiver:
        subscribe(application, receiver)
        names = "SELECT destination FROM subscriptions"
        [(destination,)] = await rows(postgresql, names)
        with application.start("relay") as one, application.start("relay") as two:
            await until(lambda: listeners(postgresql, 2), START_SECONDS)
            for process in (one, two):
                process.freeze()
            await publish_many(postgresql, count)
            for _ in range(10):
                await execute(postgresql, f"SELECT pg_notify('outbox_wakeup', '{destination}')")
            for process in (one, two):
                process.wake()
            await receiver.wait_for(count, timeout=START_SECONDS)
            await until(lambda: all_are(postgresql, "sent"), START_SECONDS)
            assert (one.stop(), two.stop()) == (0, 0)
        arrived = [request.webhook_id for request in receiver.requests]
    assert len(arrived) == len(set(arrived)) == count
    assert {number for number, _ in await rows(postgresql, ATTEMPTS)} == {1}


async def listeners(database: Database, count: int) -> bool:
    """Whether so many relays listen."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'relay listener'"
    return await rows(database, f"{query} AND datname = current_database()") == [(count,)]


async def test_window_6_a_person_and_a_stalled_relay_write_the_same_message(
    application: Application, postgresql: Database
):
    """The message has moved on, by another relay and a person's retry: the late 2xx of the first
    relay changes nothing.
    """
    async with Receiver() as receiver:
        late = asyncio.Event()
        subscribe(application, receiver, Answer(200, hold=late), Answer(404), Answer(200))
        await publish_many(postgresql, 1)
        with application.start("relay") as stalled:
            await receiver.wait_for(1, timeout=START_SECONDS)
            stalled.freeze()
            late.set()  # its 2xx is in the socket, unread
            with application.start("relay") as other:
                await until(lambda: all_are(postgresql, "parked"), LONG)
                assert other.stop() == 0
            [(message_id,)] = await rows(postgresql, "SELECT id FROM outbox_messages")
            async with postgresql.transaction() as session:
                await retry(session, message_id)
            stalled.wake()
            await until(lambda: all_are(postgresql, "sent"), START_SECONDS)
            assert stalled.stop() == 0
        assert "settle lost" in logs(application)
    assert await rows(postgresql, ATTEMPTS) == [(1, "lost"), (2, "failed"), (3, "delivered")]


def logs(application: Application) -> str:
    """What all processes said."""
    return "".join(log.read_text() for log in application.folder.glob("*.log"))


async def test_window_7_a_stalled_relay_wakes_up_after_another_has_taken_over(
    application: Application, postgresql: Database
):
    """One outcome is written, by whoever holds the token; the other one is lost and counted."""
    async with Receiver() as receiver:
        late = asyncio.Event()
        subscribe(application, receiver, Answer(500, hold=late), Answer(200))
        await publish_many(postgresql, 1)
        with application.start("relay") as stalled:
            await receiver.wait_for(1, timeout=START_SECONDS)
            stalled.freeze()
            late.set()
            with application.start("relay") as other:
                await until(lambda: all_are(postgresql, "sent"), LONG)
                assert other.stop() == 0
            before = await rows(postgresql, "SELECT * FROM outbox_messages")
            stalled.wake()
            await until(lambda: said(application, "settle lost"), START_SECONDS)
            assert stalled.stop() == 0
        one, two = receiver.requests
        assert one.webhook_id == two.webhook_id
    assert await rows(postgresql, "SELECT * FROM outbox_messages") == before
    assert await rows(postgresql, ATTEMPTS) == [(1, "lost"), (2, "delivered")]


async def said(application: Application, words: str) -> bool:
    """Whether a process has said so."""
    return words in logs(application)


async def test_window_8_a_relay_dies_between_the_answer_and_its_record(
    application: Application, postgresql: Database
):
    """The receiver has answered 200 and no record says so: the one repetition that no sender can
    avoid, with the same webhook-id and the next attempt's number.
    """
    async with Receiver() as receiver:
        answer = asyncio.Event()
        subscribe(application, receiver, Answer(200, hold=answer), Answer(200))
        await publish_many(postgresql, 1)
        with application.start("relay") as first:
            await receiver.wait_for(1, timeout=START_SECONDS)
            async with postgresql.writer.connect() as holder:  # settle waits for this row
                await holder.exec_driver_sql("SELECT id FROM outbox_messages FOR UPDATE")
                answer.set()
                await until(lambda: is_settling(postgresql), START_SECONDS)
                first.kill()
                ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " + SETTLING
                await rows(postgresql, ends)
                await holder.rollback()
        with application.start("relay") as second:
            one, two = await receiver.wait_for(2, timeout=LONG)
            await until(lambda: all_are(postgresql, "sent"), START_SECONDS)
            assert second.stop() == 0
        assert one.webhook_id == two.webhook_id
        assert [r.headers["webhook-attempt"] for r in (one, two)] == ["1", "2"]
        assert len(receiver.requests) == 2
    assert await rows(postgresql, ATTEMPTS) == [(1, "lost"), (2, "delivered")]


SETTLING = (
    "application_name = 'relay settles' AND wait_event_type = 'Lock' "
    "AND datname = current_database()"
)


async def is_settling(database: Database) -> bool:
    """Whether a settle is under way and waits."""
    found = await rows(database, f"SELECT count(*) FROM pg_stat_activity WHERE {SETTLING}")
    return found == [(1,)]
