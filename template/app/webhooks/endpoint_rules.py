"""The rules that the fields of an endpoint keep, at creation and at change alike.

Invariant: what is stored can be used. A URL that is known to be forbidden, a pattern that matches
nothing, a retry policy that makes no sense are refused here, never replaced by a default later.
"""

from collections.abc import Sequence

from msgspec import UnsetType

from app.config import LEASE_MARGIN_SECONDS, Settings
from app.errors import BadRequest
from app.outbox.event import check_text
from app.outbox.policy import Exponential, Ladder
from app.outbox.subscriptions import check_pattern
from app.webhooks.client_certificate import check_certificate
from app.webhooks.credentials import Basic, Bearer, check_auth, check_headers
from app.webhooks.endpoint import EndpointCreate, EndpointUpdate
from app.webhooks.retry import check_policy, check_range
from app.webhooks.target import check_url

MAX_TYPES = 100
DESCRIPTION_LENGTH = 500
TENANT_LENGTH = 128
LEAST_RATE, MOST_RATE = 0.001, 100_000.0
MOST_IN_FLIGHT = 1000


def check_create(wanted: EndpointCreate, tenant: str, settings: Settings) -> None:
    """Raise `BadRequest` naming the field and the rule it breaks."""
    check_text("tenant", tenant, TENANT_LENGTH)
    changes = {name: getattr(wanted, name) for name in EndpointUpdate.__struct_fields__}
    check_update(EndpointUpdate(**changes), settings)


def check_update(wanted: EndpointUpdate, settings: Settings) -> None:
    """Raise `BadRequest` naming the field and the rule it breaks."""
    if not isinstance(wanted.url, UnsetType):
        check_url(wanted.url, allow_private=settings.allow_private_targets)
    if not isinstance(wanted.types, UnsetType):
        _check_types(wanted.types)
    if not isinstance(wanted.description, UnsetType):
        check_text("description", wanted.description, DESCRIPTION_LENGTH)
    if not isinstance(wanted.headers, UnsetType):
        check_headers(wanted.headers)
    if isinstance(wanted.auth, Basic | Bearer):
        check_auth(wanted.auth)
    if isinstance(wanted.client_certificate, str):
        check_certificate(wanted.client_certificate)
    if isinstance(wanted.timeout_seconds, float | int):
        _check_timeout(wanted.timeout_seconds, settings)
    if isinstance(wanted.retry, Exponential | Ladder):
        check_policy(wanted.retry)
    if isinstance(wanted.rate_per_second, float | int):
        check_range("rate_per_second", wanted.rate_per_second, LEAST_RATE, MOST_RATE)
    if isinstance(wanted.max_in_flight, int):
        check_range("max_in_flight", wanted.max_in_flight, 1, MOST_IN_FLIGHT)


def _check_types(patterns: Sequence[str]) -> None:
    if not 1 <= len(patterns) <= MAX_TYPES:
        raise BadRequest(
            f"types: {len(patterns)} patterns; 1 to {MAX_TYPES} are allowed",
            hint='for example ["order.*"]',
        )
    for pattern in patterns:
        check_pattern(pattern)


def longest_timeout(settings: Settings) -> float:
    """What an endpoint's timeout may be; also kept where an older row says more."""
    return settings.lease_seconds - LEASE_MARGIN_SECONDS


def _check_timeout(seconds: float, settings: Settings) -> None:
    longest = longest_timeout(settings)
    if not 0 < seconds <= longest:
        raise BadRequest(
            f"timeout_seconds: {seconds:g}; above 0 and at most {longest:g} is allowed, so that no "
            f"request outlives its lease (APP_LEASE_SECONDS={settings.lease_seconds:g})"
        )
