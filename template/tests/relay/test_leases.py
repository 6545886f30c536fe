"""When a request may start: only if it ends before another relay could take the message over."""

import time
from uuid import uuid4

import pytest

from app.config import Settings
from app.outbox.message import Claim
from app.outbox.store import Store
from app.relay.lane import Held
from app.relay.leases import Leases
from tests.conftest import settings_for


class Extending(Store):
    """A store that knows nothing of a claim any more."""

    def __init__(self) -> None:
        pass

    async def extend(self, claims, now=None):
        return set()


@pytest.fixture
def settings() -> Settings:
    """A lease of 60 s, requests of 15 s."""
    return settings_for("sqlite+aiosqlite:///:memory:")


def held(age_seconds: float) -> Held:
    """A claim whose lease was written so long ago."""
    claim = Claim(uuid4(), uuid4(), "a.b", "", "test:a", uuid4(), 1, 0, 0.0, b"{}", None, 0, 0.0)
    return Held(claim, time.monotonic() - age_seconds)


def test_no_request_starts_that_might_outlive_its_lease(settings: Settings):
    """Lease minus request timeout, on the monotonic clock: 45 s."""
    leases = Leases(Extending(), settings, lambda: None)
    assert leases.may_start(held(44.0))
    assert not leases.may_start(held(45.5))


async def test_what_another_relay_has_taken_over_is_never_started(settings: Settings):
    """An extension that did not find its token says so."""
    leases, one = Leases(Extending(), settings, lambda: None), held(0.0)
    leases.hold([one])
    assert leases.may_start(one)
    await leases.extend()
    assert not leases.may_start(one)
