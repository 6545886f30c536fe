"""What the command line is called, for every hint that names a command.

`program` is its name wherever it is shown, an answer to a stranger included. `typed` is for the
terminal: a hint has to work as it is printed there, and `my-app` does only where it is on PATH.
"""

import os
import shlex
import shutil
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

_ENTRY = "app.cli:run"


@cache
def program() -> str:
    """`my-app` once the project is installed; `python -m app` in a bare checkout."""
    for entry in entry_points(group="console_scripts"):
        if entry.value == _ENTRY:
            return entry.name
    return "python -m app"


@cache
def called() -> str:
    """How whoever started this process calls it: `my-app` if that is on PATH, else its path."""
    name = program()
    beside = Path(sys.executable).with_name(name)  # for `python -m app`, which has no script
    script = Path(sys.argv[0]) if Path(sys.argv[0]).name == name else beside
    if not script.is_file():
        return name
    found = shutil.which(name)
    if found is not None and os.path.realpath(found) == os.path.realpath(script):
        return name
    near = os.path.relpath(script)
    far = script.is_absolute() and near.startswith(os.pardir)
    return shlex.quote(str(script) if far else near)


def typed(hint: str) -> str:
    """The hint with the command in it as the person called this program."""
    return hint.replace(f"run: {program()} ", f"run: {called()} ")
