"""A command line that can't be understood, said like every other mistake: a sentence and a hint."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from app.program import called

# Typer carries a copy of click; of its exceptions only this one's children have a public name.
UsageMistake: type[Any] = typer.BadParameter.__mro__[1]


def show(mistake: Any, commands: typer.Typer) -> None:
    """Usage, error and hint on stderr; a group without a command shows its whole help instead."""
    context = mistake.ctx
    if context is not None and mistake.message == context.get_help():
        mistake.show()
        return
    if context is not None:
        print(context.get_usage(), file=sys.stderr)
    print(f"error: {' '.join(mistake.format_message().split())}", file=sys.stderr)
    words = [called(), *_named(typer.main.get_command(commands), sys.argv[1:]), "--help"]
    print(f"hint: run: {' '.join(words)}", file=sys.stderr)


def _named(command: Any, words: Sequence[str]) -> Iterator[str]:
    """The command that was meant. Typer tells it of most mistakes, but not of a missing value."""
    for word in words:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return
        yield word
