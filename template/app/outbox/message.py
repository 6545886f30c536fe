"""The words of the outbox as types: status, claim, outcome.

    pending --claim--> claimed --settle--> sent
       ^                  |  \\--settle--> parked --retry (a person)--> pending
       +--retry, defer,---+                   \\---dismiss (a person)--> dismissed
          release, lost

Invariant: whoever holds a `Claim` may write its end only while the row still carries
`Claim.token`. A claim is a value: it is carried, never re-read from the row.
"""

from enum import StrEnum
from uuid import UUID

from msgspec import Struct


class Status(StrEnum):
    """Where a message stands; a generated column of `outbox_messages`."""

    PENDING = "pending"
    CLAIMED = "claimed"
    SENT = "sent"
    PARKED = "parked"
    DISMISSED = "dismissed"


class ParkedReason(StrEnum):
    """Why a message waits for a person."""

    EXHAUSTED = "exhausted"
    EXPIRED = "expired"
    REJECTED = "rejected"
    GONE = "gone"
    FORBIDDEN_TARGET = "forbidden_target"
    ENDPOINT_DISABLED = "endpoint_disabled"
    ENDPOINT_DELETED = "endpoint_deleted"
    CRASHED = "crashed"
    UNDELIVERABLE = "undeliverable"


class ErrorKind(StrEnum):
    """What went wrong in an attempt, told apart because each asks for another remedy."""

    STATUS = "status"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    PROTOCOL = "protocol"
    FORBIDDEN = "forbidden"
    HANDLER = "handler"
    INTERNAL = "internal"


class Ordering(StrEnum):
    """What a message with an ordering key does when the one before it can't be delivered."""

    NONE = "none"
    STRICT = "strict"
    YIELD = "yield"
    SKIP = "skip"


class Claim(Struct, frozen=True, gc=False):
    """One message, taken under a lease; also the proof that it was taken (`token`)."""

    message_id: UUID
    event_id: UUID
    type: str
    tenant: str
    destination: str
    token: UUID
    attempt: int  # number of this attempt, from 1, never starts anew
    ladder_start: int  # attempts before the present ladder: attempt - ladder_start is its rung
    age_seconds: float  # since the ladder started: creation, or a person's retry
    body: bytes
    traceparent: str | None
    losses: int  # how many earlier claims of it were lost; above 0 it was claimed alone
    claimed_at: float  # time.monotonic() before the claim statement was sent
    sequence: int | None = None  # of an ordering key, where the destination orders

    @property
    def lone(self) -> bool:
        """Whether it was claimed alone, because an earlier claim of it was lost."""
        return self.losses > 0

    @property
    def rung(self) -> int:
        """Which attempt of the present ladder this is, from 1."""
        return self.attempt - self.ladder_start


class Response(Struct, frozen=True, gc=False):
    """What is kept of a receiver's answer; sizes are capped by the deliverer."""

    status_code: int
    head: bytes = b""  # header lines as received: `Name: value\r\n` each
    body: bytes = b""


class Delivered(Struct, frozen=True, gc=False):
    """The receiver has taken the message."""

    response: Response | None = None


class Failed(Struct, frozen=True, gc=False):
    """The attempt failed. `park` ends it at once; else the policy decides when to try again."""

    kind: ErrorKind
    error: str  # one sentence, no secret, no URL query
    response: Response | None = None
    retry_after_seconds: float | None = None
    park: ParkedReason | None = None


class Deferred(Struct, frozen=True, gc=False):
    """No attempt was made, so none is spent. `park` parks the message instead of waiting."""

    reason: str
    delay_seconds: float = 1.0
    park: ParkedReason | None = None


Outcome = Delivered | Failed | Deferred


class Result(Struct, frozen=True, gc=False):
    """An outcome with the claim it ends and the time it took; what settle takes."""

    claim: Claim
    outcome: Outcome
    started_seconds_ago: float
    duration_seconds: float


def webhook_destination(endpoint_id: UUID) -> str:
    """`webhook:<endpoint id>`."""
    return f"webhook:{endpoint_id}"


def endpoint_id_of(destination: str) -> UUID | None:
    """The endpoint's id of a webhook destination; None for another kind."""
    kind, _, rest = destination.partition(":")
    return UUID(rest) if kind == "webhook" else None
