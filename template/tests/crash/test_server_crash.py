"""The database server dies while requests are out."""

import asyncio
import os
import signal

from app.db.engine import Database
from app.db.migrate import upgrade
from app.outbox.store import Store, Wanted
from tests.conftest import settings_for
from tests.outbox.factories import A, given_destination, given_events, message_rows
from tests.support.postgres import START_SECONDS, running_server


async def test_g2_a_claim_survives_a_crash_of_the_server():
    """The request is out from the moment the claim is answered: attempts never fall, and the lease
    still keeps everybody else away.
    """
    with running_server() as server:
        url = server.url.render_as_string(hide_password=False)
        database = Database(settings_for(url))
        await upgrade(database)
        await given_destination(database)
        await given_events(database, 20)
        store = Store(database)
        claims = (await store.claim([Wanted(A, 20)])).claims
        pid_file = server.data / "postmaster.pid"
        os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)  # nothing is written any more
        async with asyncio.timeout(START_SECONDS):
            while pid_file.exists():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
        server.start()
        await store.close()
        await database.dispose()
        database, again = Database(settings_for(url)), Store(Database(settings_for(url)))
        rows = await message_rows(database)
        assert len(claims) == 20
        assert {(row["status"], row["attempts"]) for row in rows} == {("claimed", 1)}
        assert (await again.claim([Wanted(A, 20)])).claims == []
        await again.close()
        await database.dispose()
