"""Retry policies of endpoints: what may be stored, and what a person is told about one.

Invariant: a policy that can't be kept is refused at write naming the rule. One that is malformed in
the database parks its messages (`ready.py`); it is never replaced by the default.
"""

import math
import re
from typing import Any

import msgspec

from app.errors import BadRequest
from app.outbox.policy import (
    DEFAULT_POLICY,
    Exponential,
    Ladder,
    OnStatus,
    RetryPolicy,
    in_words,
    span_of,
)

MAX_ATTEMPTS = 100
MAX_WAIT_SECONDS = 30 * 86_400.0
MAX_STATUSES = 20
_STATUS = re.compile(r"[345]\d\d|[345]xx")


def check_policy(policy: RetryPolicy) -> None:
    """Raise `BadRequest` naming the field of the policy and the rule it breaks."""
    check_range("retry.jitter", policy.jitter, 0.0, 1.0)
    if policy.max_age_seconds is not None:
        check_range("retry.max_age_seconds", policy.max_age_seconds, 1.0, MAX_WAIT_SECONDS)
    _check_statuses(policy.on_status)
    match policy:
        case Exponential():
            check_range("retry.attempts", policy.attempts, 1, MAX_ATTEMPTS)
            check_range("retry.base_seconds", policy.base_seconds, 0.1, MAX_WAIT_SECONDS)
            check_range(
                "retry.cap_seconds", policy.cap_seconds, policy.base_seconds, MAX_WAIT_SECONDS
            )
        case Ladder():
            check_range(
                "retry.delays_seconds (count)", len(policy.delays_seconds), 1, MAX_ATTEMPTS - 1
            )
            for index, delay in enumerate(policy.delays_seconds):
                check_range(f"retry.delays_seconds[{index}]", delay, 0.1, MAX_WAIT_SECONDS)


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise `BadRequest` for a number that is none or lies outside."""
    if not math.isfinite(value) or not least <= value <= most:
        raise BadRequest(f"{name}: {value:g}; {least:g} to {most:g} is allowed")


def policy_of(stored: Any) -> RetryPolicy:
    """The stored policy, or the default; raises `msgspec.ValidationError` if it is malformed."""
    if stored is None:
        return DEFAULT_POLICY
    policy: RetryPolicy = msgspec.convert(stored, RetryPolicy)
    return policy


def stored_policy(policy: RetryPolicy | None) -> Any:
    """What is stored for a policy; None for the default."""
    return None if policy is None else msgspec.to_builtins(policy)


def _check_statuses(on_status: OnStatus) -> None:
    if len(on_status) > MAX_STATUSES:
        raise BadRequest(
            f"retry.on_status: {len(on_status)} statuses; at most {MAX_STATUSES} are allowed"
        )
    for status in on_status:
        if not _STATUS.fullmatch(status):
            raise BadRequest(
                f"retry.on_status: {status[:20]!r} is not a status from 300 to 599 or a class",
                hint='for example {"404": "retry", "5xx": "park"}',
            )


def on_status(policy: RetryPolicy, status: int) -> str | None:
    """`retry` or `park` where the policy has a rule of its own for this status."""
    return policy.on_status.get(str(status)) or policy.on_status.get(f"{status // 100}xx")


def span_in_words(policy: RetryPolicy) -> str:
    """`12 attempts over 1 h 43 min`, without jitter."""
    span = span_of(policy)
    return (
        "1 attempt"
        if span.attempts == 1
        else f"{span.attempts} attempts over " + in_words(span.seconds)
    )
