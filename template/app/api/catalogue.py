"""The event catalogue: which event types this application promises, and what their data looks like.

A feature registers its types (see `features.py`). `POST /api/events` checks the data of a
registered type; an unregistered one passes and is counted, unless APP_REQUIRE_REGISTERED_TYPES.
Where to change what: a new event type is one `EventType` beside the code that publishes it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from app.errors import BadRequest


@dataclass(frozen=True, slots=True)
class EventType:
    """A promised event type: its name, the Struct of its data, and an example of it."""

    name: str
    data: type[Struct]
    example: Struct
    description: str

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the data."""
        return msgspec.json.schema(self.data)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The registered event types by name."""

    types: dict[str, EventType] = field(default_factory=dict)

    @classmethod
    def of(cls, types: Iterable[EventType]) -> "Catalogue":
        """A catalogue of these types; a name that occurs twice is a programming error."""
        catalogue = cls()
        for event_type in types:
            assert event_type.name not in catalogue.types, f"{event_type.name} is registered twice"
            catalogue.types[event_type.name] = event_type
        return catalogue

    def check(self, name: str, data: Any, *, required: bool) -> bool:
        """True when `name` is registered and `data` fits; False when it is not registered.

        Raises `BadRequest` naming the field when the data does not fit, or when `required` and the
        type is not registered.
        """
        event_type = self.types.get(name)
        if event_type is None:
            if required:
                known = ", ".join(sorted(self.types)) or "none"
                raise BadRequest(
                    f"event type {name!r} is not registered", hint=f"registered types: {known}"
                )
            return False
        try:
            msgspec.convert(data, event_type.data)
        except msgspec.ValidationError as error:
            raise BadRequest(f"data of {name}: {error}") from None
        return True
