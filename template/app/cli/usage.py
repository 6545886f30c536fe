"""A command line that can't be understood, said like every other mistake: a sentence and a hint."""

import sys
from typing import Any

import typer

from app.program import called

# Typer carries a copy of click; of its exceptions only this one's children have a public name.
UsageMistake: type[Any] = typer.BadParameter.__mro__[1]


def show(mistake: Any) -> None:
    """Usage, error and hint on stderr; a group without a command shows its whole help instead."""
    context = mistake.ctx
    if context is None or mistake.message == context.get_help():
        mistake.show()
        return
    words = [called(), *context.command_path.split()[len(_root(context).split()) :]]
    print(context.get_usage(), file=sys.stderr)
    print(f"error: {' '.join(mistake.format_message().split())}", file=sys.stderr)
    print(f"hint: run: {' '.join(words)} --help", file=sys.stderr)


def _root(context: Any) -> str:
    name: str = context.find_root().command_path
    return name
