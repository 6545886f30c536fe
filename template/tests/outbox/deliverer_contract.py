"""What every kind of destination must do; `app/outbox/deliverer.py` is the port.

A new kind subclasses `DelivererContract` in its own tests and answers four questions: its deliverer
and a claim for each of three destinations. The relay relies on nothing else.
"""

import asyncio

import msgspec
import pytest

from app.outbox.deliverer import Deliverer
from app.outbox.message import Claim, Deferred, Delivered, Failed, Outcome, ParkedReason
from app.outbox.policy import RetryPolicy, next_step, span_of
from app.outbox.settlement import ERROR_LENGTH, row_of
from app.outbox.store import Result, Settlement

SECONDS = 10.0


class DelivererContract:
    """The rules; each test is one of them."""

    @pytest.fixture
    async def deliverer(self) -> Deliverer:
        """The deliverer, ready to use; the fixture closes it afterwards."""
        raise NotImplementedError

    @pytest.fixture
    async def taken(self) -> Claim:
        """A claim whose destination takes it."""
        raise NotImplementedError

    @pytest.fixture
    async def refused(self) -> Claim:
        """A claim whose destination fails for now, however often it is tried."""
        raise NotImplementedError

    @pytest.fixture
    async def stalled(self) -> Claim:
        """A claim whose destination takes far longer than a test."""
        raise NotImplementedError

    async def test_what_is_taken_is_delivered(self, deliverer: Deliverer, taken: Claim):
        """The same claim again is an attempt like any other."""
        for attempt in (1, 2):
            again = msgspec.structs.replace(taken, attempt=attempt)
            assert isinstance(await deliver(deliverer, again), Delivered)

    async def test_what_fails_for_now_is_an_outcome_and_no_exception(
        self, deliverer: Deliverer, refused: Claim
    ):
        """Left to the policy: not parked by the deliverer."""
        outcome = await deliver(deliverer, refused)
        assert isinstance(outcome, Failed)
        assert outcome.park is None
        assert outcome.error.strip()
        assert len(outcome.error) <= ERROR_LENGTH

    async def test_a_destination_that_is_not_there_raises_nothing(
        self, deliverer: Deliverer, taken: Claim
    ):
        """Deleted, never made, or no destination at all: parked, for a person to see.

        After a day at the latest: a kind may wait for a version that knows the destination.
        """
        kind = taken.destination.partition(":")[0]
        for name in ("00000000-0000-0000-0000-000000000000", "nonsense", ""):
            destination, a_day = f"{kind}:{name}", 86_400.0
            claim = msgspec.structs.replace(taken, destination=destination, age_seconds=a_day)
            outcome = await deliver(deliverer, claim)
            assert isinstance(outcome, Deferred | Failed), name
            assert outcome.park in (ParkedReason.ENDPOINT_DELETED, ParkedReason.UNDELIVERABLE), name

    async def test_the_policy_is_known_after_an_attempt(self, deliverer: Deliverer, refused: Claim):
        """And it decides: the outcome leads to a transition, the transition to a row."""
        outcome = await deliver(deliverer, refused)
        policy: RetryPolicy = deliverer.policy(refused.destination)
        assert policy.attempts >= 1
        assert span_of(policy).seconds >= 0
        transition = next_step(outcome, refused, policy, FixedRandom())
        assert (
            row_of(Settlement(Result(refused, outcome, 0.1, 0.1), transition)).outcome == "failed"
        )

    async def test_a_stalled_destination_holds_up_no_other(
        self, deliverer: Deliverer, taken: Claim, stalled: Claim
    ):
        """Many at once, in one process."""
        waiting = [asyncio.create_task(deliverer.deliver(stalled)) for _ in range(8)]
        try:
            for _ in range(3):
                assert isinstance(await deliver(deliverer, taken), Delivered)
            assert not any(task.done() for task in waiting)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def test_a_cancelled_attempt_ends_and_breaks_nothing(
        self, deliverer: Deliverer, taken: Claim, stalled: Claim
    ):
        """The relay stops: the attempt is cut, the next one works."""
        task = asyncio.create_task(deliverer.deliver(stalled))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, SECONDS)
        assert isinstance(await deliver(deliverer, taken), Delivered)

    async def test_close_can_be_called_twice(self, deliverer: Deliverer, taken: Claim):
        """Also before anything was delivered."""
        await deliverer.close()
        await deliverer.close()


class FixedRandom:
    """The middle of every jitter."""

    def random(self) -> float:
        """Always a half."""
        return 0.5


async def deliver(deliverer: Deliverer, claim: Claim) -> Outcome:
    """One attempt within a time that no test should need."""
    async with asyncio.timeout(SECONDS):
        return await deliverer.deliver(claim)
