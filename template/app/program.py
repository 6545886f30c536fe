"""The name under which the command line is installed, for every hint that names a command."""

from functools import cache
from importlib.metadata import entry_points

_ENTRY = "app.cli:run"


@cache
def program() -> str:
    """`my-app` once the project is installed; `python -m app` in a bare checkout."""
    for entry in entry_points(group="console_scripts"):
        if entry.value == _ENTRY:
            return entry.name
    return "python -m app"
