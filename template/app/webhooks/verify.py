"""The receiver's side of Standard Webhooks: strict verification that never fails halfway.

    Verifier(["whsec_…"]).verify(headers, body)       # v1
    Verifier(["whpk_…"]).verify(headers, body)        # v1a; several, of both kinds, are possible

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

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.errors import AppError
from app.webhooks.secrets import (
    PRIVATE_PREFIX,
    PUBLIC_PREFIX,
    InvalidSecretError,
    decode_public,
    decode_secret,
)

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
    """Verifies requests against one or more secrets or public keys; several during a rotation."""

    def __init__(
        self, secrets: Sequence[str], *, tolerance_seconds: float = TOLERANCE_SECONDS
    ) -> None:
        """Raise `InvalidSecretError` for a text that is neither `whsec_…` nor `whpk_…`."""
        self._secrets: list[bytes] = []
        self._public: list[Ed25519PublicKey] = []
        for text in secrets:
            if text.startswith(PRIVATE_PREFIX):
                raise InvalidSecretError("whsk_ is the sender's private key; verify with whpk_")
            if text.startswith(PUBLIC_PREFIX):
                self._public.append(Ed25519PublicKey.from_public_bytes(decode_public(text)))
            else:
                self._secrets.append(decode_secret(text))
        self._versions = {"v1": bool(self._secrets), "v1a": bool(self._public)}
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
        given = self._signatures(lower.get("webhook-signature"))
        if not (self._v1_matches(given["v1"], signed) or self._v1a_matches(given["v1a"], signed)):
            raise VerificationError(Problem.BAD_SIGNATURE, "no signature matches a known secret")
        return Verified(webhook_id, timestamp)

    def _check_fresh(self, timestamp: int, now: float) -> None:
        if timestamp < now - self._tolerance_seconds:
            age = int(now - timestamp)
            raise VerificationError(Problem.TOO_OLD, f"webhook-timestamp is {age} s old")
        if timestamp > now + self._tolerance_seconds:
            ahead = int(timestamp - now)
            raise VerificationError(Problem.TOO_NEW, f"webhook-timestamp is {ahead} s ahead")

    def _v1_matches(self, given: list[bytes], signed: bytes) -> bool:
        expected = [hmac.digest(key, signed, "sha256") for key in self._secrets]
        return any(hmac.compare_digest(mine, theirs) for mine in expected for theirs in given)

    def _v1a_matches(self, given: list[bytes], signed: bytes) -> bool:
        return any(_is_signed_by(key, theirs, signed) for key in self._public for theirs in given)

    def _signatures(self, value: str | None) -> dict[str, list[bytes]]:
        """The entries that decode, by version; a malformed one never hides a good one behind it."""
        if value is None:
            problem = Problem.MISSING_HEADER
            raise VerificationError(problem, "the header webhook-signature is missing")
        found: dict[str, list[bytes]] = {version: [] for version in self._versions}
        supported = False
        for entry in value.split(" ")[:_MAX_SIGNATURES]:
            version, _, encoded = entry.partition(",")
            if not self._versions.get(version):
                continue
            supported = True
            try:
                found[version].append(binascii.a2b_base64(encoded, strict_mode=True))
            except ValueError:
                continue
        if not supported:
            known = " or ".join(version for version, has_key in self._versions.items() if has_key)
            problem = Problem.NO_SUPPORTED_SIGNATURE
            raise VerificationError(problem, f"there is no {known or 'known'} signature")
        return found


def _is_signed_by(key: Ed25519PublicKey, signature: bytes, signed: bytes) -> bool:
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _header(headers: Mapping[str, str], name: str, form: re.Pattern[str]) -> str:
    value = headers.get(name)
    if value is None:
        raise VerificationError(Problem.MISSING_HEADER, f"the header {name} is missing")
    if not form.fullmatch(value):
        raise VerificationError(Problem.BAD_HEADER, f"the header {name} is malformed")
    return value
