"""Retry policies as pure decisions: how far they go, what Retry-After may do."""

from random import Random

import pytest

from app.ids import uuid7
from app.outbox.message import ErrorKind, Failed, ParkedReason
from app.outbox.policy import (
    DEFAULT_POLICY,
    Exponential,
    Ladder,
    Park,
    RetryIn,
    Span,
    jittered,
    next_step,
    span_of,
)
from tests.webhooks.factories import claim_for

DEFAULT_ID = uuid7()
LADDER = Ladder(delays_seconds=(60, 300, 900, 3600, 21_600, 86_400))


@pytest.mark.parametrize(
    ("policy", "span"),
    [
        (DEFAULT_POLICY, Span(12, 6155)),
        (LADDER, Span(7, 112_860)),
        (Exponential(attempts=1), Span(1, 0)),
        (Exponential(max_age_seconds=60), Span(4, 35)),
        (Ladder(delays_seconds=(60, 300), max_age_seconds=30), Span(1, 0)),
    ],
)
def test_the_span_is_what_really_happens(policy, span):
    """The age cap ends a policy before its number of attempts does."""
    assert span_of(policy) == span


@pytest.mark.parametrize(
    "policy", [Exponential(max_age_seconds=60, jitter=0), Ladder(delays_seconds=(1, 2), jitter=0)]
)
def test_the_attempts_that_are_made_are_the_span_that_is_shown(policy):
    """Walked attempt by attempt with the decision that settles messages."""
    age, attempts, failed = 0.0, 0, Failed(ErrorKind.TIMEOUT, "no answer")
    while True:
        attempts += 1
        claim = claim_for(DEFAULT_ID, attempt=attempts, age_seconds=age)
        match next_step(failed, claim, policy, Random(1)):
            case RetryIn(seconds):
                age += seconds
            case end:
                assert isinstance(end, Park)
                break
    assert span_of(policy) == Span(attempts, age)


@pytest.mark.parametrize(
    ("policy", "least", "most"), [(LADDER, 150, 450), (Exponential(base_seconds=150), 240, 360)]
)
def test_waits_are_spread_by_the_jitter_to_either_side(policy, least, most):
    """Half to one and a half times for a ladder, else a fifth either way; never over the cap."""
    random = Random(1)
    waits = [jittered(policy, 2, random) for _ in range(1000)]
    assert least <= min(waits) < least * 1.05
    assert most * 0.95 < max(waits) <= most
    assert max(jittered(Exponential(), 11, random) for _ in range(1000)) == 1800


def test_retry_after_is_capped_and_never_earlier_than_the_plan():
    """By the policy's age cap, else by 6 hours; a message too old by then is parked."""

    def wait(seconds: float, policy=DEFAULT_POLICY):
        failed = Failed(ErrorKind.STATUS, "answered 429", retry_after_seconds=seconds)
        return next_step(failed, claim_for(DEFAULT_ID), policy, Random(1))

    assert wait(100) == RetryIn(100)
    assert wait(1e9) == RetryIn(6 * 3600)
    assert wait(1, Exponential(jitter=0)) == RetryIn(5)
    assert wait(1e9, Exponential(jitter=0, max_age_seconds=600)) == RetryIn(600)
    short = Exponential(jitter=0, max_age_seconds=2)
    assert wait(1, short) == Park(ParkedReason.EXPIRED)
