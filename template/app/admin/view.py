"""The values that the templates show: a message with its surroundings, the filter with its choices.

Invariant: templates decide nothing. Whether a retry is possible, and why not, is decided here; the
final word is `outbox/messages.py`'s, which checks again inside the transaction.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import assert_never
from urllib.parse import urlencode
from uuid import UUID

from msgspec import Struct

from app.admin.queries import EndpointInfo, Group
from app.admin.words import Explanation, explain, utc
from app.errors import BadRequest
from app.outbox.message import ParkedReason, Status, endpoint_id_of
from app.outbox.messages import Message, MessageFilter


class Row(Struct, frozen=True):
    """A message as a page shows it."""

    id: UUID
    event_id: UUID
    type: str
    tenant: str
    target: str
    status: str
    attempts: int
    last_error: str | None
    created_at: datetime
    parked_at: datetime | None
    explanation: Explanation | None  # only while it is parked
    state: str  # where it stands, as a sentence
    obstacle: str  # why a retry is not possible now; empty when it is
    remedy: str  # the command that helps against the obstacle

    @property
    def is_parked(self) -> bool:
        """A person may retry or dismiss it."""
        return self.explanation is not None

    @property
    def can_retry(self) -> bool:
        """It is parked and there is somewhere to send it."""
        return self.is_parked and not self.obstacle


def row_of(message: Message, endpoint: EndpointInfo | None, parked_at: datetime | None) -> Row:
    """A message with the endpoint it goes to (None: not a webhook, or its row is gone)."""
    obstacle, remedy = _obstacle(message.endpoint_id, endpoint)
    reason = message.parked_reason if message.status is Status.PARKED else None
    return Row(
        id=message.id,
        event_id=message.event_id,
        type=message.type,
        tenant=message.tenant,
        target=endpoint.url if endpoint else message.destination,
        status=message.status,
        attempts=message.attempts,
        last_error=message.last_error,
        created_at=message.created_at,
        parked_at=parked_at,
        explanation=None if reason is None else explain(reason),
        state=_state(message),
        obstacle=obstacle,
        remedy=remedy,
    )


def _obstacle(endpoint_id: UUID | None, endpoint: EndpointInfo | None) -> tuple[str, str]:
    if endpoint_id is None:
        return "", ""
    if endpoint is None or endpoint.status == "deleted":
        return "its endpoint is deleted", ""
    if endpoint.status == "disabled":
        reason = f" ({endpoint.disabled_reason})" if endpoint.disabled_reason else ""
        return f"its endpoint is disabled{reason}", f"endpoints enable {endpoint_id}"
    return "", ""


def _state(message: Message) -> str:
    match message.status:
        case Status.PENDING:
            return f"It waits for its next attempt, due {utc(message.available_at)}."
        case Status.CLAIMED:
            return "It is being sent right now."
        case Status.SENT:
            return "It was delivered."
        case Status.PARKED:
            return "It is parked."
        case Status.DISMISSED:
            return "A person dismissed it: it is never sent."
        case _:
            assert_never(message.status)


class Filter(Struct, frozen=True):
    """What the list is narrowed to; empty fields narrow nothing."""

    type: str = ""
    endpoint: str = ""
    reason: str = ""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The fields that are set."""
        named = (("type", self.type), ("endpoint", self.endpoint), ("reason", self.reason))
        return [(name, value) for name, value in named if value]

    @property
    def active(self) -> bool:
        """Anything is narrowed."""
        return bool(self.pairs)

    def query(self, **more: str) -> str:
        """`?type=…&cursor=…`, or nothing."""
        pairs = self.pairs + list(more.items())
        return "?" + urlencode(pairs) if pairs else ""

    @property
    def wanted(self) -> MessageFilter:
        """The same for `list_messages`. Raises `BadRequest` for an id or a reason that is none."""
        try:
            endpoint_id = UUID(self.endpoint) if self.endpoint else None
        except ValueError:
            raise BadRequest(f"endpoint={self.endpoint!r} is not an id.") from None
        if self.reason and self.reason not in set(ParkedReason):
            known = ", ".join(ParkedReason)
            raise BadRequest(f"reason={self.reason!r} is none of: {known}.")
        return MessageFilter(
            status=Status.PARKED,
            type=self.type or None,
            endpoint_id=endpoint_id,
            reason=ParkedReason(self.reason) if self.reason else None,
        )


class Option(Struct, frozen=True):
    """One choice; `count` is 0 when it is not known."""

    value: str
    label: str
    count: int


class Field(Struct, frozen=True):
    """One part of the filter with its choices."""

    name: str
    label: str
    chosen: str
    options: list[Option]


def fields_of(
    chosen: Filter, groups: Iterable[Group], infos: Mapping[UUID, EndpointInfo]
) -> list[Field]:
    """The filter's selects; a chosen value that nothing has (any more) stays on offer."""
    by_type, by_endpoint, by_reason = dict[str, int](), dict[str, int](), dict[str, int]()
    for group in groups:
        by_type[group.type] = by_type.get(group.type, 0) + group.count
        by_reason[group.reason] = by_reason.get(group.reason, 0) + group.count
        if endpoint := endpoint_id_of(group.destination):
            by_endpoint[str(endpoint)] = by_endpoint.get(str(endpoint), 0) + group.count
    urls = {str(info.id): info.url for info in infos.values()}
    reasons = {str(reason): explain(reason).title for reason in ParkedReason}
    return [
        _field("type", "Event type", chosen.type, by_type, {}),
        _field("endpoint", "Receiver", chosen.endpoint, by_endpoint, urls),
        _field("reason", "What happened", chosen.reason, by_reason, reasons),
    ]


def _field(
    name: str, label: str, chosen: str, counts: Mapping[str, int], labels: Mapping[str, str]
) -> Field:
    values = sorted(counts, key=lambda value: (-counts[value], value))
    if chosen and chosen not in counts:
        values.append(chosen)
    options = [Option(value, labels.get(value, value), counts.get(value, 0)) for value in values]
    return Field(name, label, chosen, options)
