"""The receiver's side of Standard Webhooks: strict verification that never fails halfway.

Invariant: whatever arrives, `verify` returns a `Verified` or raises `VerificationError`; it decodes
no body and trusts nothing before the signature has matched. A receiver answers 401 for any reason,
and uses `Verified.webhook_id` to recognise a message that it has already handled.
"""

import binascii
import hmac
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.errors import AppError
from app.webhooks.signing import decode_secret

TOLERANCE_SECONDS = 300
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_ID = re.compile(r"[!-\-/-~]{1,255}")  # printable ASCII without a dot: the dot separates
_MAX_SIGNATURES = 20


class Problem(StrEnum):
    """Why a request was refused."""

    MISSING_HEADER = "missing_header"
    BAD_HEADER = "bad_header"
    TOO_OLD = "too_old"
    TOO_NEW = "too_new"
    NO_SUPPORTED_SIGNATURE = "no_supported_signature"  # another scheme, not a forgery
    BAD_SIGNATURE = "bad_signature"


class VerificationError(AppError):
    """The request was not signed with a secret that we know, or it is not fresh."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Verified:
    """A request that proved its origin."""

    webhook_id: str
    timestamp: int


class Verifier:
    """Verifies requests against one or more secrets; several are valid during a rotation."""

    def __init__(
        self, secrets: Sequence[str], *, tolerance_seconds: int = TOLERANCE_SECONDS
    ) -> None:
        self._keys = [decode_secret(secret) for secret in secrets]
        self._tolerance_seconds = tolerance_seconds

    def verify(
        self, headers: Mapping[str, str], body: bytes, *, now: float | None = None
    ) -> Verified:
        """Who sent it and when; raises `VerificationError` and nothing else."""
        lower = {name.lower(): value for name, value in headers.items()}
        webhook_id = _header(lower, "webhook-id", _ID)
        text = _header(lower, "webhook-timestamp", _TIMESTAMP)
        timestamp = int(text)
        self._check_fresh(timestamp, time.time() if now is None else now)
        signed = f"{webhook_id}.{text}.".encode() + body
        expected = [hmac.digest(key, signed, "sha256") for key in self._keys]
        given = _signatures(lower.get("webhook-signature"))
        if not any(hmac.compare_digest(mine, theirs) for mine in expected for theirs in given):
            raise VerificationError(Problem.BAD_SIGNATURE, "no signature matches a known secret")
        return Verified(webhook_id, timestamp)

    def _check_fresh(self, timestamp: int, now: float) -> None:
        if timestamp < now - self._tolerance_seconds:
            age = int(now - timestamp)
            raise VerificationError(Problem.TOO_OLD, f"webhook-timestamp is {age} s old")
        if timestamp > now + self._tolerance_seconds:
            ahead = int(timestamp - now)
            raise VerificationError(Problem.TOO_NEW, f"webhook-timestamp is {ahead} s ahead")


def _header(headers: Mapping[str, str], name: str, form: re.Pattern[str]) -> str:
    value = headers.get(name)
    if value is None:
        raise VerificationError(Problem.MISSING_HEADER, f"the header {name} is missing")
    if not form.fullmatch(value):
        raise VerificationError(Problem.BAD_HEADER, f"the header {name} is malformed")
    return value


def _signatures(value: str | None) -> list[bytes]:
    """The v1 entries that decode; a malformed one never hides a good one behind it."""
    if value is None:
        raise VerificationError(Problem.MISSING_HEADER, "the header webhook-signature is missing")
    found, v1_seen = [], False
    for entry in value.split(" ")[:_MAX_SIGNATURES]:
        version, _, encoded = entry.partition(",")
        if version != "v1":
            continue
        v1_seen = True
        try:
            found.append(binascii.a2b_base64(encoded, strict_mode=True))
        except ValueError:
            continue
    if not v1_seen:
        raise VerificationError(Problem.NO_SUPPORTED_SIGNATURE, "there is no v1 signature")
    return found
