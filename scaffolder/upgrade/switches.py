"""Behaviour that a newer template brings switched off, read from the project without running it.

A switch is one line of `app/switches.py`, `NAME = False` (or `NAME: Final = False`), and the
text below it says what it changes and since when. An owner takes it by writing True.
"""

import ast
from dataclasses import dataclass

SWITCHES_FILE = "app/switches.py"


@dataclass(frozen=True, slots=True)
class Switch:
    """One behaviour; `taken` is False while the old one is in force."""

    name: str
    taken: bool
    text: str


def read_switches(source: bytes | None) -> tuple[Switch, ...]:
    """Return the switches of a project in their order; none when the file cannot be parsed."""
    try:
        body = ast.parse(source or b"").body
    except (SyntaxError, ValueError):
        return ()
    found = []
    for index, statement in enumerate(body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=bool(on))):
                found.append(Switch(name, on, _text(body, index + 1)))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=bool(on))):
                found.append(Switch(name, on, _text(body, index + 1)))
            case _:
                pass
    return tuple(found)


def _text(body: list[ast.stmt], index: int) -> str:
    match body[index : index + 1]:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            return " ".join(text.split())
    return ""
