"""Outcomes that the database can't take, in the middle of many that it can."""

from prometheus_client import CollectorRegistry

from app.db.engine import Database
from app.outbox.message import Claim, Delivered, Outcome, Response
from tests.outbox.factories import (
    A,
    FakeKind,
    attempt_rows,
    given_destination,
    given_events,
    message_rows,
)
from tests.relay.conftest import MakeRelay

COUNT, BAD = 400, {0, 150, 300}
TRIES = 9  # of a batch with a bad row: 250, 125, 63, 32, 16, 8, 4, 2, 1


async def test_a_row_that_cannot_be_stored_holds_back_no_other(
    database: Database, make_relay: MakeRelay, registry: CollectorRegistry
):
    """It is found by halves, whatever comes meanwhile, and stored without its answer."""
    await given_destination(database, A)
    await given_events(database, COUNT)
    seen: list[Claim] = []

    def answered(claim: Claim) -> Outcome:
        seen.append(claim)
        unlike_bytes: object = "text"
        body = unlike_bytes if len(seen) - 1 in BAD else b"ok"
        return Delivered(Response(204, b"", body))  # type: ignore[arg-type]

    counts = await make_relay({"test": FakeKind(answered)}).drain()
    assert counts.delivered == COUNT == len(seen)
    assert {row["status"] for row in await message_rows(database)} == {"sent"}
    assert len(await attempt_rows(database)) == COUNT
    failed = registry.get_sample_value("relay_errors_total", {"where": "settle"}) or 0
    assert failed <= len(BAD) * TRIES
    if not database.is_sqlite:  # there a text is as good as bytes
        assert failed >= len(BAD)
        bodies = [row["response_body"] for row in await attempt_rows(database)]
        assert bodies.count(None) == len(BAD)
