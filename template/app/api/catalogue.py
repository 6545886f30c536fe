"""The event catalogue over HTTP: a listing, and the `webhooks` part of the OpenAPI document."""

from typing import Any

import msgspec
from litestar import get
from litestar.di import NamedDependency
from msgspec import Struct

from app.api.auth import requires
from app.api.query import known_query
from app.outbox.catalogue import Catalogue

REF = "#/components/schemas/{name}"
PREFIX = "data."  # of the schemas of events' data, apart from those of requests and answers


class EventTypeView(Struct, frozen=True):
    """A promised event type; `schema` is the JSON Schema of its `data`."""

    name: str
    version: int
    description: str
    schema: dict[str, Any]
    example: dict[str, Any]


class EventTypes(Struct, frozen=True):
    """All of them, by name."""

    items: list[EventTypeView]


@get(
    "/api/event-types",
    guards=[requires("read"), known_query],
    summary="Event types",
    tags=["events"],
)
async def list_event_types(catalogue: NamedDependency[Catalogue]) -> EventTypes:
    """The registered event types, with schema and example of their data."""
    return EventTypes(
        [
            EventTypeView(t.name, t.version, t.description, t.schema(), example(t.example))
            for t in catalogue.types.values()
        ]
    )


def example(data: Struct) -> dict[str, Any]:
    """The example as JSON has it."""
    plain: dict[str, Any] = msgspec.to_builtins(data, str_keys=True)
    return plain


def describe(catalogue: Catalogue, document: dict[str, Any]) -> None:
    """Add to an OpenAPI document what receivers get: one webhook for each registered type."""
    types = list(catalogue.types.values())
    schemas, components = msgspec.json.schema_components(
        [t.data for t in types], ref_template=REF.format(name=PREFIX + "{name}")
    )
    document["components"]["schemas"] |= {PREFIX + n: s for n, s in sorted(components.items())}
    document["webhooks"] = {
        t.name: {"post": _operation(t.name, t.description, t.version, schema, example(t.example))}
        for t, schema in zip(types, schemas, strict=True)
    }


def _operation(
    name: str, description: str, version: int, schema: dict[str, Any], data: dict[str, Any]
) -> dict[str, Any]:
    body = {
        "type": "object",
        "required": ["type", "timestamp", "data"],
        "properties": {
            "type": {"const": name},
            "timestamp": {"type": "string", "format": "date-time"},
            "data": schema,
        },
    }
    sample = {"type": name, "timestamp": "2026-01-31T12:00:00Z", "data": data}
    return {
        "summary": description,
        "description": f"Version {version}. Signed as Standard Webhooks: see `webhook-signature`.",
        "requestBody": {"content": {"application/json": {"schema": body, "example": sample}}},
        "responses": {"2XX": {"description": "Taken. Anything else is tried again or parked."}},
    }
