"""Every deliberate error of the tool.

    ScaffolderError       has message, hint and exit code; its text is all that a user sees
    ├── BadInput          exit 2: the command line asks for something that cannot be
    ├── CannotProceed     exit 1: the command is fine, the machine or the disk is not ready
    └── Interrupted       exit 1: Ctrl-C or SIGTERM; everything was taken back

A message is one sentence with the value and the rule; the hint names what to type next.
"""

from typing import ClassVar


class ScaffolderError(Exception):
    """What a user did not want to read: one sentence, one hint, one exit code."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(ScaffolderError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class CannotProceed(ScaffolderError):
    """The command is fine, the machine or the disk is not ready for it."""


class Interrupted(ScaffolderError):
    """Ctrl-C or SIGTERM; everything was taken back."""
