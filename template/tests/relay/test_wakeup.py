"""Wake-ups between processes: NOTIFY after COMMIT, heard by a listener that mends itself."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import make_url, text

from app.config import Settings
from app.db.engine import Database
from app.relay.wakeup import (
    AT_ONCE,
    CHANNEL,
    GATHER_SECONDS,
    LOOK_YOURSELF,
    Gathering,
    Listener,
    Notifier,
    payload,
)
from tests.conftest import settings_for
from tests.outbox.factories import (
    A,
    B,
    FakeKind,
    given_destination,
    given_events,
    message_rows,
)
from tests.relay.conftest import MakeRelay, eventually, running
from tests.support.proxy import Proxy


@pytest.fixture
def database_url(postgresql_url: str) -> str:
    """Only PostgreSQL has other processes."""
    return postgresql_url


class Heard:
    """What a listener hands on."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.looks = 0

    def look(self) -> None:
        self.looks += 1


@pytest.fixture
async def heard(database: Database):
    """A listener that runs."""
    heard = Heard()
    listener = Listener(database, heard.names.extend, heard.look, probe_seconds=0.2)
    task = asyncio.create_task(listener.run())
    await eventually(lambda: heard.looks == 1)
    yield heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_commit_in_one_process_wakes_the_relay_of_another(
    database: Database, settings: Settings, make_relay: MakeRelay
):
    """Long before the poll, which is ten minutes away."""
    await given_destination(database)
    api = Database(settings)
    notifier = Notifier(api)
    await notifier.start()
    kind = FakeKind()
    async with running(make_relay({"test": kind}, poll_seconds=600.0)):
        for number in range(1, 4):
            await given_events(api)
            await eventually(lambda n=number: len(kind.seen) == n)
    await notifier.stop()
    await api.dispose()


async def test_the_names_of_a_transaction_arrive_after_its_commit(database: Database, heard: Heard):
    """One notification for all destinations; nothing for a rollback."""
    notifier = Notifier(database)
    await notifier.start()
    for destination in (A, B):
        await given_destination(database, destination)
    await given_events(database, 3)
    await eventually(lambda: len(heard.names) == 2)
    assert sorted(heard.names) == [A, B]
    await notifier.stop()
    assert database.on_commit == []


def test_too_many_names_become_the_word_to_look_oneself():
    """PostgreSQL refuses payloads of 8,000 bytes."""
    assert payload({A, B}) == f"{A}\n{B}"
    assert payload({"é" * 4000}) == LOOK_YOURSELF
    assert payload({f"webhook:{n:036}" for n in range(1000)}) == LOOK_YOURSELF


def test_a_few_wake_ups_in_a_row_do_not_wait_and_many_are_gathered():
    """Two commits a millisecond apart must not cost the second one the gathering of a flood."""
    gathering = Gathering()
    assert [gathering.pause(100.0) for _ in range(AT_ONCE)] == pytest.approx([0.0] * AT_ONCE)
    assert gathering.pause(100.0) == pytest.approx(GATHER_SECONDS)
    now, sent = 101.0, 0
    while now < 102.0:  # a flood
        now, sent = now + gathering.pause(now) + 0.0001, sent + 1
    assert sent <= 1.0 / GATHER_SECONDS + AT_ONCE + 1
    assert gathering.pause(now + 60.0) == 0.0, "a rest gives back what was used"


async def test_a_listener_whose_connection_is_cut_comes_back(database: Database, heard: Heard):
    """And looks at once, for what was told meanwhile."""
    await _cut(database, "relay listener")
    await eventually(lambda: heard.looks == 2)
    async with database.transaction() as session:
        await session.execute(text(f"SELECT pg_notify('{CHANNEL}', 'x')"))
    await eventually(lambda: heard.names == ["x"])


async def test_a_listener_that_hears_nothing_of_itself_reconnects(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """A half-open connection looks alive; only a round trip tells."""
    heard = Heard()
    listener = Listener(database, heard.names.extend, heard.look, probe_seconds=0.1)
    monkeypatch.setattr(listener, "_on_notify", lambda *_: None)  # nothing arrives any more
    task = asyncio.create_task(listener.run())
    await eventually(lambda: heard.looks >= 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_listener_on_a_half_open_connection_comes_back(settings: Settings):
    """The wire is silent, nothing is closed: only the round trip that does not come back tells."""
    url = make_url(settings.database_url)
    async with Proxy(url.port or 5432) as proxy:
        proxied = url.set(port=proxy.port).render_as_string(hide_password=False)
        database = Database(replace(settings, database_url=proxied))
        heard = Heard()
        listener = Listener(database, heard.names.extend, heard.look, probe_seconds=0.3)
        task = asyncio.create_task(listener.run())
        await eventually(lambda: heard.looks == 1)
        proxy.silence()
        await eventually(lambda: not listener.listening.is_set())
        assert heard.looks == 1
        proxy.speak()
        await eventually(lambda: heard.looks >= 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await database.dispose()


async def test_poll_only_relays_need_no_listener(
    database: Database, settings: Settings, make_relay: MakeRelay
):
    """Behind a pooler of transactions: APP_LISTEN=false. The poll finds what another process
    publishes, and no connection of the relay waits for a notification.
    """
    await given_destination(database)
    other = Database(settings)
    kind = FakeKind()
    async with running(make_relay({"test": kind}, poll_seconds=0.05, listen=False)):
        for number in range(1, 4):
            await given_events(other)
            await eventually(lambda n=number: len(kind.seen) == n)
        names = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'relay listener'"
        async with other.read() as session:
            query = f"{names} AND datname = current_database()"
            assert (await session.execute(text(query))).scalar_one() == 0
    assert {row["status"] for row in await message_rows(database)} == {"sent"}
    await other.dispose()


async def test_a_notifier_whose_connection_is_cut_goes_on(database: Database, heard: Heard):
    """Publishing never sees the failure."""
    notifier = Notifier(database)
    await notifier.start()
    await given_destination(database)
    await given_events(database)
    await eventually(lambda: heard.names == [A])
    await _cut(database, "wake-ups")

    async def heard_again() -> bool:
        await given_events(database)
        await asyncio.sleep(0.02)
        return len(heard.names) > 1

    await eventually(heard_again)
    await notifier.stop()


async def test_without_a_server_neither_notifier_nor_listener_raises():
    """They wait for it to come back, and can be stopped meanwhile."""
    nowhere = Database(settings_for("postgresql+asyncpg://nobody@127.0.0.1:1/none"))
    heard = Heard()
    notifier = Notifier(nowhere)
    await notifier.start()
    listening = asyncio.create_task(Listener(nowhere, heard.names.extend, heard.look).run())
    nowhere.on_commit[0](frozenset({A}))
    await asyncio.sleep(0.05)
    assert not listening.done()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    async with asyncio.timeout(5):
        await notifier.stop()
    await nowhere.dispose()


async def _cut(database: Database, name: str) -> None:
    async with database.transaction() as session:
        cut = await session.execute(
            text(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE application_name = :name AND datname = current_database()"
            ),
            {"name": name},
        )
        assert cut.scalar_one() == 1
