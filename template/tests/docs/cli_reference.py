"""docs/cli.md, made from the commands themselves."""

import re
from collections.abc import Iterator
from enum import EnumType
from functools import cache
from typing import Any, get_args, get_type_hints

import typer.main

from app.cli.main import commands
from app.program import program
from tests.docs.pages import NAME

_HEAD = """\
# Commands

<!-- Made by `make docs` from app/cli. Don't edit: a test compares. -->

Run `{name}` from the project's folder, as `.venv/bin/{name}` or with `.venv/bin` on the path.
What a command answers goes to stdout, everything else to stderr.
It ends with 0, with 1 when something failed, and with 2 when it was called wrongly.
`--json` prints one object; a list stands in it under `items`.

| command | does |
|---|---|
{rows}
"""


@cache
def tree() -> dict[str, Any]:
    """Every command by its full name, without the groups: `db upgrade` and so on."""
    return dict(_walk(typer.main.get_command(commands), ""))


def _walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if getattr(command, "hidden", False):
        return
    if below is None:
        yield path, command
        return
    for name, inner in below.items():
        yield from _walk(inner, f"{path} {name}".strip())


def page() -> str:
    """The whole page."""
    found = tree()
    rows = [
        f"| [`{path}`](#{_anchor(path)}) | {_first(command)} |" for path, command in found.items()
    ]
    sections = [_section(path, command) for path, command in found.items()]
    return "\n".join([_HEAD.format(name=NAME, rows="\n".join(rows)), *sections])


def _anchor(path: str) -> str:
    return path.replace(" ", "-")


def _text(text: str | None) -> str:
    return re.sub(r"[ \t]*\n[ \t]*", " ", (text or "").strip()).replace(program(), NAME)


def _first(command: Any) -> str:
    return _text((command.help or "").split("\n\n")[0]).rstrip(".")


def _section(path: str, command: Any) -> str:
    paragraphs = [_text(part) for part in (command.help or "").split("\n\n")]
    parameters = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    rows = [f"| `{_signature(command, p)}` | {_meaning(p)} |" for p in parameters]
    table = ["", "| argument or option | meaning |", "|---|---|", *rows] if rows else []
    usage = " ".join([NAME, path, *(_usage(command, p) for p in parameters)])
    return "\n".join(
        [f"## {path}", "", *"\n\n".join(paragraphs).split("\n"), "", f"    {usage}", *table, ""]
    )


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _metavar(command: Any, parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    if parameter.metavar is not None:
        return str(parameter.metavar)
    kind = get_type_hints(command.callback).get(parameter.name)
    for choices in (kind, *get_args(kind)):
        if isinstance(choices, EnumType):
            return "|".join(str(member.value) for member in list[Any](choices))
    whole_number = type(parameter.default) is int
    return "N" if whole_number else str(parameter.name).upper()


def _signature(command: Any, parameter: Any) -> str:
    if _is_argument(parameter):
        metavar = _metavar(command, parameter).removesuffix("...")
        return metavar + "..." if parameter.nargs == -1 else metavar
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    return f"{names} {_metavar(command, parameter)}".strip().replace("|", r"\|")


def _usage(command: Any, parameter: Any) -> str:
    text = _signature(command, parameter).replace(r"\|", "|")
    return text if parameter.required else f"[{text}]"


def _meaning(parameter: Any) -> str:
    help_text = _text(getattr(parameter, "help", None))
    default = parameter.default
    plain = isinstance(default, str | int) and not isinstance(default, bool) and default != ""
    return f"{help_text} Default: {default}." if plain else help_text
