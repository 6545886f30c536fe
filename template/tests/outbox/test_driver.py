"""The relay's own connections to PostgreSQL: their limits, and what becomes of a broken one."""

import asyncio

import asyncpg
import pytest

from app.config import Settings
from app.db.engine import Database
from app.outbox.driver import Link
from app.outbox.store_postgresql import PostgresqlBackend
from tests.conftest import settings_for


@pytest.fixture
def database_url(postgresql_url: str) -> str:
    """Only PostgreSQL has them."""
    return postgresql_url


@pytest.fixture
async def link(database: Database):
    link = Link(database, "a test")
    yield link
    await link.close()


async def shown(link: Link, *names: str) -> list[str]:
    return [(await link.fetch(f"SHOW {name}"))[0][0] for name in names]


async def test_no_statement_and_no_transaction_outlives_half_a_lease(link: Link):
    """The server ends it, so that a stalled relay can't keep rows from the others."""
    limits = await shown(link, "statement_timeout", "idle_in_transaction_session_timeout")
    assert limits == ["30s", "30s"]
    assert await shown(link, "tcp_keepalives_idle") == ["10"]


async def test_every_write_waits_for_the_disk(database: Database):
    """A claim too: a crash of the server must not give an attempt back, nor a live lease away."""
    backend = PostgresqlBackend(database)
    links = (backend._claims, backend._settles, backend._upkeep)
    assert [(await shown(link, "synchronous_commit"))[0] for link in links] == ["on", "on", "on"]
    await backend.close()


async def test_behind_a_pooler_of_transactions_nothing_is_left_on_the_server(settings: Settings):
    """The next one to get this connection is a stranger: no setting, no prepared statement."""
    database = Database(settings_for(settings.database_url, APP_LISTEN="false"))
    link = Link(database, "a test")
    assert await shown(link, "statement_timeout", "enable_seqscan") == ["30s", "off"]
    bare = link._connection
    assert bare is not None
    kept = [await bare.fetchval(f"SHOW {n}") for n in ("statement_timeout", "enable_seqscan")]
    assert kept == ["0", "on"]
    assert await bare.fetchval("SELECT count(*) FROM pg_prepared_statements") == 0
    await link.close()
    await database.dispose()


async def test_a_broken_connection_fails_once_and_is_replaced(link: Link):
    """The statement that hits it raises; the next one has a new connection."""
    pid = (await link.fetch("SELECT pg_backend_pid()"))[0][0]
    with pytest.raises(asyncpg.PostgresError):
        await link.fetch("SELECT pg_terminate_backend($1)", pid)
    assert (await link.fetch("SELECT pg_backend_pid()"))[0][0] != pid


async def test_a_cancelled_statement_leaves_no_connection_in_the_middle_of_it(link: Link):
    """The next one does not wait for it."""
    task = asyncio.create_task(link.fetch("SELECT pg_sleep(60)"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        assert (await link.fetch("SELECT 1"))[0][0] == 1


async def test_a_server_that_does_not_answer_is_given_up(database: Database, settings: Settings):
    """After half a lease, by the clock of the client: the connection may be only half there."""
    hasty = Database(
        settings_for(
            settings.database_url,
            APP_LEASE_SECONDS="3", APP_REQUEST_TIMEOUT_SECONDS="1", APP_CONNECT_TIMEOUT_SECONDS="1",
        )
    )  # fmt: skip
    link = Link(hasty, "a test")
    await link.fetch("SELECT set_config('statement_timeout', '0', false)")
    async with asyncio.timeout(5):
        with pytest.raises(TimeoutError):
            await link.fetch("SELECT pg_sleep(60)")
        assert (await link.fetch("SELECT 1"))[0][0] == 1
    await link.close()
    await hasty.dispose()


async def test_sqlalchemys_own_options_in_the_url_are_understood(settings: Settings):
    """`prepared_statement_cache_size=0` is how one runs behind a pooler of transactions."""
    url = f"{settings.database_url}?prepared_statement_cache_size=0"
    database = Database(settings_for(url))
    link = Link(database, "a test")
    assert (await link.fetch("SELECT 1"))[0][0] == 1
    assert (await link.fetch("SELECT count(*) FROM pg_prepared_statements"))[0][0] == 0
    await link.close()
    await database.dispose()
