"""The rules that the fields of an endpoint keep, at creation and at change."""

import msgspec
import pytest

from app.errors import BadRequest
from app.outbox.policy import Exponential, Ladder
from app.webhooks.endpoint import (
    EndpointCreate,
    EndpointUpdate,
)
from app.webhooks.endpoint_rules import check_create, check_update
from tests.conftest import settings_for

BAD_FIELDS = [
    {"url": "file:///etc/passwd"},
    {"url": "https://user:pass@example.com/"},
    {"url": "https://example.com/" + "a" * 2000},
    {"url": "https://169.254.169.254/latest"},
    {"types": []},
    {"types": ["order.*.x"]},
    {"types": ["a"] * 101},
    {"description": "x" * 501},
    {"description": "nul \x00"},
    {"timeout_seconds": 0.0},
    {"timeout_seconds": -1.0},
    {"timeout_seconds": 58.1},
    {"timeout_seconds": float("nan")},
    {"timeout_seconds": float("inf")},
    {"retry": Exponential(base_seconds=0.0)},
    {"retry": Exponential(base_seconds=10.0, cap_seconds=5.0)},
    {"retry": Exponential(attempts=0)},
    {"retry": Exponential(attempts=101)},
    {"retry": Exponential(jitter=1.5)},
    {"retry": Exponential(jitter=float("nan"))},
    {"retry": Exponential(max_age_seconds=0.0)},
    {"retry": Ladder(delays_seconds=())},
    {"retry": Ladder(delays_seconds=(5.0, -1.0))},
    {"retry": Ladder(delays_seconds=(5.0, float("inf")))},
    {"retry": Exponential(on_status={"200": "retry"})},
    {"retry": Exponential(on_status={"4x": "park"})},
    {"retry": Ladder(delays_seconds=(1.0,), on_status={"600": "park"})},
    {"rate_per_second": 0.0},
    {"rate_per_second": float("nan")},
    {"rate_per_second": 1e9},
    {"max_in_flight": 0},
    {"max_in_flight": 1001},
]


@pytest.mark.parametrize("fields", BAD_FIELDS, ids=lambda f: str(f)[:60])
def test_a_field_that_breaks_a_rule_is_refused_by_name(fields):
    """At creation and at change alike."""
    settings = settings_for("sqlite+aiosqlite:///unused.db", APP_ALLOW_PRIVATE_TARGETS="false")
    (name,) = fields
    given = {"url": "https://example.com/hook", "types": ["order.*"]} | fields
    with pytest.raises(BadRequest, match=f"^{name}"):
        check_create(EndpointCreate(**given), "", settings)
    with pytest.raises(BadRequest, match=f"^{name}"):
        check_update(EndpointUpdate(**fields), settings)


def test_a_policy_with_an_unknown_field_or_kind_is_refused():
    """Nothing malformed is replaced silently by a schedule that the owner doesn't know."""
    for retry in ({"kind": "exponential", "atempts": 3}, {"kind": "linear"}, {"attempts": 3}):
        body = msgspec.json.encode({"url": "https://example.com", "types": ["a"], "retry": retry})
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(body, type=EndpointCreate)
