"""What an endpoint looks like to people (API, `--json`, pages), and the rules its fields keep.

Invariant: what is stored can be used. A URL that is known to be forbidden, a pattern that matches
nothing, a retry policy that makes no sense are refused here, never replaced by a default later.
The JSON field names are the struct fields.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.config import LEASE_MARGIN_SECONDS, Settings
from app.errors import BadRequest
from app.outbox.event import check_text
from app.outbox.policy import DEFAULT_POLICY, Exponential, Ladder, RetryPolicy
from app.outbox.subscriptions import check_pattern
from app.webhooks.target import check_url

OVERLAP_SECONDS = 86_400.0  # how long both secrets sign unless told otherwise
MAX_TYPES = 100
MAX_ATTEMPTS = 100
MAX_WAIT_SECONDS = 30 * 86_400.0
DESCRIPTION_LENGTH = 500
TENANT_LENGTH = 128


class EndpointCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to give for a new endpoint. `types` are patterns: `order.paid`, `order.*`, `*`."""

    url: str
    types: list[str]
    tenant: str | None = None
    description: str = ""
    timeout_seconds: float | None = None  # null: APP_REQUEST_TIMEOUT_SECONDS
    retry: RetryPolicy | None = None  # null: the default policy


class EndpointUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change; a field that is left out stays, null goes back to the default."""

    url: str | UnsetType = UNSET
    types: list[str] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    timeout_seconds: float | UnsetType | None = UNSET
    retry: RetryPolicy | UnsetType | None = UNSET


class Endpoint(Struct, frozen=True, kw_only=True):
    """One endpoint. Its secret is shown only when it is made or rotated."""

    id: UUID
    url: str
    types: tuple[str, ...]
    tenant: str
    description: str
    timeout_seconds: float | None
    retry: RetryPolicy
    status: str  # enabled | disabled | deleted
    disabled_reason: str | None
    disabled_at: datetime | None
    created_at: datetime


class EndpointCreated(Endpoint, frozen=True, kw_only=True):
    """A new endpoint, with the secret that is never shown again."""

    secret: str


class Rotated(Struct, frozen=True):
    """The new secret; requests are signed with the old one too until `old_secret_until`."""

    secret: str
    old_secret_until: datetime


class EndpointPage(Struct, frozen=True):
    """Some endpoints, newest first; `next_cursor` asks for the rest."""

    items: list[Endpoint]
    next_cursor: UUID | None


class Rotation(Struct, frozen=True, forbid_unknown_fields=True):
    """How long the old secret signs too."""

    overlap_seconds: float = OVERLAP_SECONDS


class Disabling(Struct, frozen=True, forbid_unknown_fields=True):
    """Why; shown with the endpoint."""

    reason: str = "disabled through the API"


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
    if isinstance(wanted.timeout_seconds, float | int):
        _check_timeout(wanted.timeout_seconds, settings)
    if isinstance(wanted.retry, Exponential | Ladder):
        check_policy(wanted.retry)


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


def check_policy(policy: RetryPolicy) -> None:
    """Raise `BadRequest` naming the field of the policy and the rule it breaks."""
    _check_range("jitter", policy.jitter, 0.0, 1.0)
    if policy.max_age_seconds is not None:
        _check_range("max_age_seconds", policy.max_age_seconds, 1.0, MAX_WAIT_SECONDS)
    match policy:
        case Exponential():
            _check_range("attempts", policy.attempts, 1, MAX_ATTEMPTS)
            _check_range("base_seconds", policy.base_seconds, 0.1, MAX_WAIT_SECONDS)
            _check_range("cap_seconds", policy.cap_seconds, policy.base_seconds, MAX_WAIT_SECONDS)
        case Ladder():
            _check_range("delays_seconds (count)", len(policy.delays_seconds), 1, MAX_ATTEMPTS - 1)
            for index, delay in enumerate(policy.delays_seconds):
                _check_range(f"delays_seconds[{index}]", delay, 0.1, MAX_WAIT_SECONDS)


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not math.isfinite(value) or not least <= value <= most:
        raise BadRequest(f"retry.{name}: {value:g}; {least:g} to {most:g} is allowed")


def policy_of(stored: Any) -> RetryPolicy:
    """The stored policy, or the default; raises `msgspec.ValidationError` if it is malformed."""
    if stored is None:
        return DEFAULT_POLICY
    policy: RetryPolicy = msgspec.convert(stored, RetryPolicy)
    return policy


def stored_policy(policy: RetryPolicy | None) -> Any:
    """What is stored for a policy; None for the default."""
    return None if policy is None else msgspec.to_builtins(policy)
