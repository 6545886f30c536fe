"""The event catalogue: which event types this application promises, and what their data looks like.

    ORDER_PAID = EventType("order.paid", OrderView, EXAMPLE, "An order was paid.")
    await publish(session, ORDER_PAID.event(view, tenant=order.tenant))

    features --types--> wiring --Catalogue--> every transaction --> publish checks the data
                                          \\--> OpenAPI, GET /api/event-types, docs/events.md

Invariant: data of a registered type that does not fit its class is never stored, whoever publishes
it. An unregistered type passes and is counted, unless APP_REQUIRE_REGISTERED_TYPES. Where to change
what: a new event type is one `EventType` beside the code that publishes it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from app.errors import AppError, BadRequest, ConfigError
from app.outbox.event import Event, check_type

T = TypeVar("T", bound=Struct)


@dataclass(frozen=True, slots=True)
class EventType(Generic[T]):
    """A promised event type: its name, the class of its data, an example of it.

    `version` counts the additions to `data`. What a receiver could not read any more is another
    type with another name, because the name is all that a receiver chooses by.
    """

    name: str
    data: type[T]
    example: T
    description: str
    version: int = 1

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the data."""
        return msgspec.json.schema(self.data)

    def event(
        self,
        data: T,
        *,
        tenant: str = "",
        ordering_key: str | None = None,
        occurred_at: datetime | None = None,
        available_at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Event:
        """An event of this type, for publish."""
        return Event(
            type=self.name,
            data=data,
            tenant=tenant,
            ordering_key=ordering_key,
            occurred_at=occurred_at,
            available_at=available_at,
            traceparent=traceparent,
        )

    def check(self, data: Any) -> None:
        """Raise `BadRequest` with the path of the first value that does not fit the class."""
        try:
            msgspec.convert(msgspec.to_builtins(data, str_keys=True), self.data)
        except msgspec.ValidationError as error:
            rule, _, path = str(error).partition(" - at `$")
            where = f"data{path.removesuffix('`')}"
            raise BadRequest(f"{where}: {rule} (event type {self.name})") from None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The registered event types by name. `required`: no other type may be published."""

    types: Mapping[str, EventType[Any]] = field(default_factory=dict)
    required: bool = False
    count_unregistered: Callable[[], None] = lambda: None

    @classmethod
    def of(
        cls,
        types: Iterable[EventType[Any]],
        *,
        required: bool = False,
        count_unregistered: Callable[[], None] = lambda: None,
    ) -> "Catalogue":
        """A catalogue of these types.

        Raises `ConfigError` for a name that occurs twice or is none, and for an example that does
        not fit: the application does not start with a promise that it can't keep.
        """
        found: dict[str, EventType[Any]] = {}
        for event_type in types:
            if event_type.name in found:
                raise ConfigError(
                    f"event type {event_type.name} is registered twice, for "
                    f"{found[event_type.name].data.__name__} and {event_type.data.__name__}",
                    hint="give one of them another name; a newer version takes the older's place",
                )
            _check_promise(event_type)
            found[event_type.name] = event_type
        return cls(dict(sorted(found.items())), required, count_unregistered)

    def check(self, name: str, data: Any) -> None:
        """Raise `BadRequest` for data that does not fit, or for a type that has to be registered.

        Counts a type that is not registered.
        """
        event_type = self.types.get(name)
        if event_type is not None:
            event_type.check(data)
        elif self.required:
            known = ", ".join(self.types) or "none"
            raise BadRequest(
                f"type: {name!r} is not registered", hint=f"registered event types: {known}"
            )
        else:
            self.count_unregistered()


def _check_promise(event_type: EventType[Any]) -> None:
    try:
        check_type(event_type.name)
        event_type.check(event_type.example)
    except AppError as error:
        raise ConfigError(
            f"event type {event_type.name}: its name or its example breaks a rule: {error.message}"
        ) from None
