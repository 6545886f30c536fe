"""What an endpoint looks like to people (API, `--json`, pages).

The JSON field names are the struct fields; change one and you change the API. The rules that the
fields keep are in `endpoint_rules.py`.
"""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from app.outbox.message import Ordering
from app.outbox.policy import RetryPolicy
from app.webhooks.client_certificate import CertificateShown
from app.webhooks.credentials import Auth, AuthShown
from app.webhooks.schemes import Signature

OVERLAP_SECONDS = 86_400.0  # how long both secrets sign unless told otherwise


class EndpointCreate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to give for a new endpoint. `types` are patterns: `order.paid`, `order.*`, `*`."""

    url: str
    types: list[str]
    tenant: str | None = None
    description: str = ""
    timeout_seconds: float | None = None  # null: APP_REQUEST_TIMEOUT_SECONDS
    retry: RetryPolicy | None = None  # null: the default policy
    ordering: Ordering = Ordering.NONE  # of messages with the same ordering key
    gap_seconds: float | None = None  # with `yield`: how long one waits; null: 60
    rate_per_second: float | None = None  # null: no limit
    max_in_flight: int | None = None  # null: APP_ENDPOINT_CONCURRENCY for each relay
    signature: Signature = Signature.V1
    headers: dict[str, str] = {}  # your own, on every request
    auth: Auth | None = None  # null: no `authorization`
    client_certificate: str | None = None  # PEM, its key too; shown to the receiver by TLS


class EndpointUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change; a field that is left out stays, null goes back to the default."""

    url: str | UnsetType = UNSET
    types: list[str] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    timeout_seconds: float | UnsetType | None = UNSET
    retry: RetryPolicy | UnsetType | None = UNSET
    ordering: Ordering | UnsetType = UNSET
    gap_seconds: float | UnsetType | None = UNSET
    rate_per_second: float | UnsetType | None = UNSET
    max_in_flight: int | UnsetType | None = UNSET
    headers: dict[str, str] | UnsetType = UNSET  # all of them
    auth: Auth | UnsetType | None = UNSET
    client_certificate: str | UnsetType | None = UNSET


class Endpoint(Struct, frozen=True, kw_only=True):
    """One endpoint. Its secret is shown only when it is made or rotated."""

    id: UUID
    url: str
    types: tuple[str, ...]
    tenant: str
    description: str
    timeout_seconds: float | None
    retry: RetryPolicy
    retry_span: str  # what the policy comes to: `12 attempts over 1 h 43 min`
    ordering: Ordering
    gap_seconds: float | None  # null unless it yields
    rate_per_second: float | None
    max_in_flight: int | None
    signature: Signature  # of the current secret
    headers: dict[str, str]  # values masked
    auth: AuthShown | None
    client_certificate: CertificateShown | None
    status: str  # enabled | disabled | deleted
    disabled_reason: str | None
    disabled_at: datetime | None
    failing_since: datetime | None  # nothing but failures since then
    waits_for: str | None  # why nothing is sent at present, though it is enabled
    created_at: datetime


class EndpointCreated(Endpoint, frozen=True, kw_only=True):
    """A new endpoint, with the secret that is never shown again."""

    secret: str  # what the receiver verifies with: v1 whsec_…, v1a the public key whpk_…


class Rotated(Struct, frozen=True):
    """The new secret; requests are signed with the old one too until `old_secret_until`."""

    secret: str
    old_secret_until: datetime


class EndpointPage(Struct, frozen=True):
    """Some endpoints, newest first; `next_cursor` asks for the rest."""

    items: list[Endpoint]
    next_cursor: UUID | None


class Rotation(Struct, frozen=True, forbid_unknown_fields=True):
    """How long the old secret signs too; `signature` changes how requests are signed."""

    overlap_seconds: float = OVERLAP_SECONDS
    signature: Signature | None = None  # null: as before


class Disabling(Struct, frozen=True, forbid_unknown_fields=True):
    """Why; shown with the endpoint."""

    reason: str = "disabled through the API"
