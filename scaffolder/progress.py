"""What a command may tell while it works, and what it may ask; the console implements both."""

from typing import Protocol

from scaffolder.questions import Question


class Progress(Protocol):
    """Steps of a running command."""

    def working(self, text: str) -> None:
        """Say what is going on now; a later call replaces it."""

    def done(self, text: str) -> None:
        """Say that a step is finished."""

    def note(self, text: str) -> None:
        """Say what was left out and why."""


class Asker(Protocol):
    """A person at a terminal."""

    def ask(self, question: Question, default: str) -> str:
        """Return the typed answer, or `default` for an empty line."""

    def confirm(self, question: Question, *, default: bool) -> bool:
        """Return yes or no, or `default` for an empty line."""
