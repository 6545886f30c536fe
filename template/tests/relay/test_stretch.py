"""Slow destinations, however many, hold no sender that another message needs (G8)."""

import asyncio

from app.db.engine import Database
from app.outbox.message import Claim, Delivered, Outcome
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy
from tests.outbox.factories import given_destination, given_events
from tests.relay.conftest import eventually, running

SLOW = 20


class Slow:
    """Answers at once, or only when it is let go."""

    def __init__(self) -> None:
        self.answering = asyncio.Event()
        self.out, self.quick = 0, 0

    async def deliver(self, claim: Claim) -> Outcome:
        if claim.destination.endswith("quick"):
            self.quick += 1
            return Delivered()
        self.out += 1
        await self.answering.wait()
        return Delivered()

    def policy(self, _destination: str) -> RetryPolicy:
        return DEFAULT_POLICY

    async def close(self) -> None:
        pass


async def _slow_ones(database: Database) -> None:
    for number in range(SLOW):
        await given_destination(database, f"test:slow-{number}", patterns=["slow.*"])
    await given_events(database, 1, "slow.one")


async def test_g8_more_slow_destinations_than_senders_delay_no_other(database, make_relay):
    """Four senders and twenty destinations that do not answer: the next message still goes."""
    slow = Slow()
    relay = make_relay({"test": slow}, relay_concurrency=4, endpoint_concurrency=2)
    await _slow_ones(database)
    async with running(relay):
        await eventually(lambda: slow.out == SLOW)
        await given_destination(database, "test:quick", patterns=["quick.*"])
        await given_events(database, 1, "quick.one")
        await eventually(lambda: slow.quick == 1)
        assert slow.out == SLOW
        slow.answering.set()
        await eventually(lambda: relay.counts.delivered == SLOW + 1)


async def test_what_is_out_is_bounded_and_each_destination_keeps_its_limit(database, make_relay):
    """Eight times the setting in all; two for one endpoint, however long they take."""
    slow = Slow()
    relay = make_relay({"test": slow}, relay_concurrency=1, endpoint_concurrency=2)
    await _slow_ones(database)
    async with running(relay):
        await eventually(lambda: slow.out == 8)
        await asyncio.sleep(0.3)  # several looks later
        assert slow.out == 8
        slow.answering.set()
        await eventually(lambda: relay.counts.delivered == SLOW)
