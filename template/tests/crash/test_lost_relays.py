"""A relay frozen in the middle of its work, on PostgreSQL (G4, G5); see also `test_windows.py`."""

from app.db.engine import Database
from tests.crash.conftest import (
    LINGER_INSIDE_A_CLAIM,
    all_are,
    execute,
    is_claiming,
    publish_many,
    until,
)
from tests.crash.plant import LEASE_SECONDS, START_SECONDS
from tests.support.processes import Application
from tests.support.receiver import Receiver


async def test_g4_a_relay_frozen_inside_its_claim_delays_nothing_beyond_the_lease(
    application: Application, postgresql: Database
):
    """Other relays deliver everything within lease + 10 s; woken again, it sends nothing twice."""
    count = 20
    await execute(postgresql, LINGER_INSIDE_A_CLAIM)
    async with Receiver() as receiver:
        application.run("endpoints", "add", receiver.url_for("/hook"), "--types", "order.*")
        await publish_many(postgresql, count)
        with application.start("relay") as frozen:
            await until(lambda: is_claiming(postgresql), START_SECONDS)
            frozen.freeze()
            with application.start("relay") as other:
                await receiver.wait_for(1, timeout=START_SECONDS)
                await until(lambda: all_are(postgresql, "sent"), LEASE_SECONDS + 10)
                frozen.wake()
                assert frozen.stop() == 0
                assert other.stop() == 0
        arrived = [request.webhook_id for request in receiver.requests]
        assert len(arrived) == len(set(arrived)) == count
