"""How commands print: JSON, a table on a terminal, tab-separated lines into a pipe.

Invariant: what strangers wrote (URLs, errors, bodies) can't move the cursor or change colours:
control characters are shown as escapes, and nothing is read as markup.
"""

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from app.errors import UsageError
from app.outbox.policy import in_words


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the field of the item that it shows, and its heading."""

    field: str
    title: str = ""

    @property
    def heading(self) -> str:
        """The title, else the name of the field; a duration is shown with its own unit."""
        return self.title or _without_unit(self.field).replace("_", " ")

    def shown(self, item: Any) -> str:
        """The item's value as one line of text."""
        return _in_words(self.field, getattr(item, self.field))


def columns(*names: str) -> tuple[Column, ...]:
    """Columns whose headings are the field names."""
    return tuple(Column(name) for name in names)


def note(text: str) -> None:
    """Something a person may want to know; to stderr, because it is no data."""
    print(inert(text), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """One JSON document; JSON escapes ASCII control characters, `inert` the others."""
    print(inert(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()), flush=True)


def print_items(
    items: Sequence[Any], shown: Sequence[Column], *, as_json: bool, **more: Any
) -> None:
    """A list: `{"items": […], …}`, or a table."""
    if as_json:
        print_json({"items": items, **more})
    else:
        rows = [[column.shown(item) for column in shown] for item in items]
        print_table(shown, rows)


def print_record(item: Any, *, as_json: bool, leave_out: Collection[str] = ()) -> None:
    """One thing: its JSON, or a line for each field."""
    if as_json:
        print_json(item)
        return
    fields = msgspec.to_builtins(item, builtin_types=(datetime,))
    shown = {name: value for name, value in fields.items() if name not in leave_out}
    width = max(len(_without_unit(name)) for name in shown)
    for name, value in shown.items():
        print(f"{_without_unit(name):<{width}}  {_in_words(name, value)}", flush=True)


def print_table(shown: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Made with rich where a person looks at it, tab-separated where a program reads it."""
    if not sys.stdout.isatty():
        for row in [[column.heading for column in shown], *rows]:
            print("\t".join(row), flush=True)
        return
    if not rows:
        note("there are none")
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in shown:
        # An id is there to be copied: whatever else is short of room, it stays whole.
        table.add_column(column.heading, overflow="fold", no_wrap=column.field == "id")
    for row in rows:
        table.add_row(*(Text(value) for value in row))
    Console().print(table)


def _without_unit(field: str) -> str:
    return field.removesuffix("_seconds").removesuffix("_ms")


def _in_words(field: str, value: Any) -> str:
    """A duration, which its field's name ends with, as `1 h 43 min`; anything else as a cell."""
    if isinstance(value, int | float) and field.endswith("_seconds"):
        return in_words(value)
    if isinstance(value, int | float) and field.endswith("_ms"):
        return in_words(value / 1000)
    return cell(value)


def cell(value: Any) -> str:
    """A value as one line of text."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        case "":
            return "''"
        case list() | tuple():
            return ", ".join(cell(part) for part in value)
        case dict():
            return inert(msgspec.json.encode(value).decode())
        case _:
            return inert(str(value)).replace("\n", "\\n")


def inert(text: str) -> str:
    """The text with each control character but the newline as a visible escape."""
    return "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the person says yes; without a terminal only with `--yes`."""
    import typer

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on", hint="pass --yes")
    typer.confirm(question, abort=True, err=True)
