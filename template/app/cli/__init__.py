"""The command line. One module for each group of commands; `main.py` is the tree of them.

Invariants: data goes to stdout, everything else to stderr; the exit code is 0 (done), 1 (failed)
or 2 (called wrongly); a mistake of the user is one sentence and a hint, never a traceback. A
command in a hint can be copied as it is (`typed`).
`--help` must not load the application, so modules import what is heavy inside their functions.
A new command is a function in the module of its group; `docs/cli.md` is generated from its help.
"""

import sys

from app.errors import AppError
from app.program import typed


def run() -> None:
    """What the installed command and `python -m app` call."""
    import typer

    from app.cli.main import commands
    from app.cli.usage import UsageMistake, show

    try:
        code = commands(standalone_mode=False)  # else Typer would print mistakes in its own words
    except AppError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {typed(error.hint)}", file=sys.stderr)
        sys.exit(error.exit_code)
    except UsageMistake as mistake:
        show(mistake, commands)
        sys.exit(mistake.exit_code)
    except typer.Abort:
        print("aborted", file=sys.stderr)
        sys.exit(1)
    sys.exit(code)
