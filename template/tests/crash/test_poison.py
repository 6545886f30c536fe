"""A message that ends its relay is parked as `crashed`, and never another one for its sake.

Time is moved, not waited for: after each end of a relay its leases are made to have run out, and
those that wait after a loss are due, one after the other as they would be.
"""

import asyncio
from collections import Counter
from random import Random

from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.publish import publish_all
from tests.crash.conftest import execute, rows, until
from tests.crash.relay_process import relay_process
from tests.outbox.factories import given_destination
from tests.support.size import nightly

KILLS = 30
LEASES_RUN_OUT = """
UPDATE outbox_messages SET lease_until = now() - interval '1 second' WHERE claim_token IS NOT NULL;
UPDATE outbox_messages SET available_at = available_at - interval '1 hour'
WHERE losses > 0 AND claim_token IS NULL AND sent_at IS NULL AND parked_at IS NULL;
"""


async def given(database: Database, count: int, *, poison: bool) -> None:
    """Messages for ten destinations; one of them may be poisonous."""
    if await rows(database, "SELECT count(*) FROM subscriptions") == [(0,)]:
        for number in range(10):
            await given_destination(database, f"test:{number}", patterns=[f"crash.t{number}"])
    batch = [
        Event(type=f"crash.t{number % 10}", data={"poison": poison and number == count // 2})
        for number in range(count)
    ]
    async with database.transaction() as session:
        await publish_all(session, batch)


async def owed(database: Database) -> int:
    """How many are neither sent nor parked."""
    query = "SELECT count(*) FROM outbox_messages WHERE status IN ('pending', 'claimed')"
    [(count,)] = await rows(database, query)
    return int(count)


async def test_poison_is_parked_as_crashed_and_everything_else_is_delivered(
    postgresql: Database, postgresql_url: str
):
    """It ends every process that sends it: once in company, three times alone (and once more if
    there was company when its turn came the second time). Nothing else is parked.
    """
    await given(postgresql, 60, poison=True)
    deaths = 0

    async def died_or_done(process) -> bool:
        return not process.is_alive() or not await owed(postgresql)

    while await owed(postgresql):
        with relay_process(postgresql_url) as process:
            await until(lambda p=process: died_or_done(p), 60)
            deaths += not process.is_alive()
        await execute(postgresql, LEASES_RUN_OUT)
        assert deaths <= 5
    found = Counter(await rows(postgresql, "SELECT status, parked_reason FROM outbox_messages"))
    assert found == {("sent", None): 59, ("parked", "crashed"): 1}
    assert deaths >= 4


@nightly
async def test_innocent_messages_are_never_parked_however_often_relays_are_killed(
    postgresql: Database, postgresql_url: str
):
    """Thirty kills at random instants, receivers of 50 to 300 ms, every lost one due at once."""
    await kills_park_nothing(postgresql, postgresql_url, KILLS)


async def test_innocent_messages_survive_a_crash_loop(postgresql: Database, postgresql_url: str):
    """The short form: eight kills."""
    await kills_park_nothing(postgresql, postgresql_url, 8)


async def kills_park_nothing(database: Database, url: str, kills: int) -> None:
    """Kill, let the leases run out, and again; in the end everything is sent."""
    random = Random(7)
    reclaimed = "SELECT count(*) FROM attempts WHERE outcome = 'lost'"
    for _ in range(kills):
        await given(database, 40, poison=False)
        delivered = await rows(database, "SELECT count(*) FROM attempts")

        async def works(before=delivered) -> bool:
            return await rows(database, "SELECT count(*) FROM attempts") != before

        with relay_process(url) as process:
            await until(works, 60)
            await asyncio.sleep(0.6 * random.random())
            process.kill()
        await execute(database, LEASES_RUN_OUT)
    with relay_process(url):

        async def done() -> bool:
            return await owed(database) == 0

        await until(done, 120)
    found = Counter(await rows(database, "SELECT status, parked_reason FROM outbox_messages"))
    assert found == {("sent", None): 40 * kills}
    assert await rows(database, reclaimed) > [(kills,)], "the kills hit nothing"
