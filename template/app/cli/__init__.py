"""The command line. One module for each group of commands; `main.py` is the tree of them.

Invariants: data goes to stdout, everything else to stderr; the exit code is 0 (done), 1 (failed)
or 2 (called wrongly); a mistake of the user is one sentence and a hint, never a traceback.
`--help` must not load the application, so modules import what is heavy inside their functions.
A new command is a function in the module of its group; `docs/cli.md` is generated from its help.
"""

import sys

from app.errors import AppError


def run() -> None:
    """What the installed command and `python -m app` call."""
    from app.cli.main import commands

    try:
        commands()
    except AppError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
