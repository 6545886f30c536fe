"""Making handlers: what is refused when the application starts."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.errors import AppError, ConfigError
from app.handlers.handler import Received, RetryLater, handler
from app.handlers.registry import Handlers
from app.outbox.event import Event, encode_body
from app.outbox.policy import DEFAULT_POLICY, Exponential
from tests.conftest import settings_for
from tests.handlers.factories import PAID, claim_for, recording

SETTINGS = settings_for("sqlite+aiosqlite:///unused.db")


async def nothing(received: Received[Any]) -> None:
    """Does it."""


def test_a_handler_keeps_what_it_was_made_with():
    """Name, pattern, policy; the function stays one that a test can call."""
    plain = handler("a-1", "order.*")(nothing)
    assert (plain.destination, plain.pattern) == ("handler:a-1", "order.*")
    assert (plain.policy, plain.function) == (DEFAULT_POLICY, nothing)
    typed = handler("b", PAID, policy=Exponential(attempts=3))(nothing)
    assert (typed.pattern, typed.policy.attempts) == ("order.paid", 3)


@pytest.mark.parametrize("name", ["", "A", "a b", "a:b", "-a", "a" * 65, "é", "a\n"])
def test_a_name_that_would_not_fit_a_destination_is_refused(name: str):
    """It is stored with each message and separates words by spaces."""
    with pytest.raises(ConfigError, match="handler"):
        handler(name, "*")(nothing)


def test_a_pattern_that_is_none_and_a_function_that_blocks_are_refused():
    """Here, not when the first event comes."""
    with pytest.raises(AppError, match="not a pattern"):
        handler("a", "order.*.x")(nothing)
    with pytest.raises(ConfigError, match="not an async function"):
        handler("a", "*")(lambda received: None)  # type: ignore[arg-type,return-value]


def test_two_handlers_of_one_name_and_a_timeout_beyond_the_lease_are_refused():
    """The second would take the first one's messages; the other would be called twice at once."""
    one, two = handler("a", "*")(nothing), handler("a", "order.*")(nothing)
    with pytest.raises(ConfigError, match="two handlers named a"):
        Handlers.of([one, two], SETTINGS)
    for seconds in (0, -1, 58.5, float("inf"), float("nan")):
        late = handler("a", "*", timeout_seconds=seconds)(nothing)
        with pytest.raises(ConfigError, match="timeout_seconds"):
            Handlers.of([late], SETTINGS)


def test_patterns_of_several_handlers_are_kept_together():
    """As publish looks them up."""
    made = [handler("a", "*")(nothing), handler("b", "*")(nothing), handler("c", "x.y")(nothing)]
    owed = Handlers.of(made, SETTINGS).owed()
    assert owed == {"*": ("handler:a", "handler:b"), "x.y": ("handler:c",)}


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_wait_that_is_none_is_refused(seconds: float):
    """It would end up as a time in the database."""
    with pytest.raises(ValueError, match="seconds"):
        RetryLater(seconds, "x")


def test_the_body_of_every_event_has_what_a_handler_reads():
    """`timestamp` and `data`, whatever the data is."""
    take, _ = recording()
    for data in (None, [1, {"a": "b"}], "text"):
        body = encode_body(Event(type="a.b", data=data), datetime.now(UTC))
        claim = claim_for("handler:taken", body=body)
        assert take.received(claim, None).data == data
