"""A relay that is told to stop, as a process: what was out ends, what was not started goes back."""

import asyncio
import json
from collections import Counter
from pathlib import Path

from app.db.engine import Database
from tests.crash.conftest import all_are, publish_many, rows, until
from tests.crash.plant import START_SECONDS
from tests.support.processes import Application
from tests.support.receiver import Answer, Receiver


async def test_sigterm_settles_what_is_out_and_gives_back_the_rest(
    tmp_path: Path, postgresql_url: str, postgresql: Database
):
    """Exit code 0 within the budget. Each message arrives exactly once, by this relay or the next;
    no claim is left behind, no attempt is lost.
    """
    count = 60
    application = Application(tmp_path, postgresql_url)
    async with Receiver() as receiver:
        url = receiver.on("/hook", Answer(200, delay_seconds=0.5))
        application.run("endpoints", "add", url, "--types", "order.*")
        await publish_many(postgresql, count)
        with application.start("relay", "--json") as first:
            await receiver.wait_for(8, timeout=START_SECONDS)
            assert await asyncio.to_thread(first.stop) == 0
        found = dict(
            await rows(postgresql, "SELECT status, count(*) FROM outbox_messages GROUP BY 1")
        )
        assert found.keys() == {"sent", "pending"}
        assert found["sent"] == len(receiver.requests) < count
        log = (application.folder / "1-relay.log").read_text()
        counts = json.loads(log[log.rindex("{") :])
        assert counts["delivered"] == found["sent"]
        with application.start("relay") as second:
            await until(lambda: all_are(postgresql, "sent"), START_SECONDS)
            assert second.stop() == 0
        arrived = Counter(request.webhook_id for request in receiver.requests)
    assert len(arrived) == count
    assert set(arrived.values()) == {1}
    outcomes = await rows(
        postgresql, "SELECT outcome, number, count(*) FROM attempts GROUP BY 1, 2"
    )
    assert outcomes == [("delivered", 1, count)]
