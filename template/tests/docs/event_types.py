"""docs/events.md, made from the event types that the application and its features register."""

from typing import Any

import msgspec

from app import features
from app.outbox.catalogue import EventType
from app.webhooks.operator_events import EVENT_TYPES

_HEAD = """\
# Event types

<!-- Made by `make docs` from the registered event types. Don't edit: a test compares. -->

What receivers may build on. Fields are added, never changed or removed; what a receiver could not
read any more is another type with another name. `GET /api/event-types` has the JSON Schemas.
"""
_OWN = """
## Events about the application itself

They tell whoever operates it. Only a pattern that names them gets them, such as `endpoint.*`, never
`*`.
"""


def sections() -> dict[str, str]:
    """The text about each feature's event types, by the feature's name."""
    loaded = {feature.name: feature.event_types for feature in features.load()}
    return {name: "".join(map(_section, types)) for name, types in loaded.items() if types}


def own() -> str:
    """The text about the event types that every project has."""
    return _OWN + "".join(map(_section, EVENT_TYPES))


def page() -> str:
    """The whole page."""
    return "".join([_HEAD, *sections().values(), own()])


def template() -> str:
    """The page from which each project gets the sections of the features that it has."""
    found = sections()
    blocks = [f"{{%- if {name} %}}\n{text}{{%- endif %}}" for name, text in found.items()]
    return "\n".join([_HEAD.rstrip("\n"), *blocks, own()])


def _section(event_type: EventType[Any]) -> str:
    schema = event_type.schema()
    described = schema["$defs"][event_type.data.__name__]
    needed = described.get("required", [])
    rows = [
        f"| `{name}` | {_form(field)} | {'yes' if name in needed else 'no'} |"
        for name, field in described["properties"].items()
    ]
    table = "\n".join(rows)
    example = msgspec.json.format(msgspec.json.encode(event_type.example), indent=2).decode()
    return f"""
## {event_type.name}

{event_type.description} Version {event_type.version} of its data:

| field | form | always there |
|---|---|---|
{table}

```json
{example}
```
"""


def _form(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(map(_form, field["anyOf"]))
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    words = (field.get("type"), field.get("format"))
    return ", ".join(str(word) for word in words if word) or "anything"
