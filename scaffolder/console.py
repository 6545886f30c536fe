"""The only module that writes: data to stdout, everything else to stderr.

Colour and moving lines only on a terminal, never with NO_COLOR; a tick is ASCII where the
stream cannot say it otherwise.
"""

import json
import os
import shutil
import sys
from typing import TextIO

from scaffolder.errors import CannotProceed, ScaffolderError
from scaffolder.questions import Question

_GREEN, _RED, _BOLD, _DIM, _PLAIN = "\033[32m", "\033[31m", "\033[1m", "\033[2m", "\033[0m"
_CLEAR_LINE = "\r\033[K"
_YES, _NO = ("y", "yes", "true", "1"), ("n", "no", "false", "0")


class Console:
    """Progress, questions and results of one run."""

    def __init__(self, *, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._live = self._err.isatty() and os.environ.get("TERM") != "dumb"
        self._colour = self._live and not os.environ.get("NO_COLOR")
        self._tick = "✓" if _can_say(self._err, "✓") else "ok"

    @property
    def interactive(self) -> bool:
        """Tell whether a person can be asked."""
        return sys.stdin is not None and sys.stdin.isatty() and self._err.isatty()

    def working(self, text: str) -> None:
        """Show what is going on; on a terminal only, the next line writes over it."""
        if self._live:
            width = shutil.get_terminal_size().columns - 4
            self._write(f"{_CLEAR_LINE}{self._painted(_DIM, f'… {text}'[:width])}")

    def done(self, text: str) -> None:
        """Show a finished step."""
        self._line(f"{self._painted(_GREEN, self._tick)} {text}")

    def note(self, text: str) -> None:
        """Show what was left out and why."""
        self._line(f"- {text}")

    def say(self, text: str = "") -> None:
        """Write a line that belongs to no step."""
        self._line(text)

    def heading(self, text: str) -> None:
        """Write a line that opens a block."""
        self._line(self._painted(_BOLD, text))

    def error(self, error: ScaffolderError) -> None:
        """Show an error: one sentence and one hint."""
        self._line(f"{self._painted(_RED, 'error:')} {error.message}")
        self._line(f"{self._painted(_BOLD, 'hint:')} {error.hint}")

    def ask(self, question: Question, default: str) -> str:
        """Ask until the answer is one of the choices."""
        choices = f" ({', '.join(question.choices)})" if question.choices else ""
        while True:
            answer = self._answer(f"{question.help}{choices} [{default}]: ") or default
            if not question.choices or answer in question.choices:
                return answer
            self._line(f"`{answer}` is none of {', '.join(question.choices)}")

    def confirm(self, question: Question, *, default: bool) -> bool:
        """Ask until the answer is yes or no."""
        shown = "Y/n" if default else "y/N"
        while True:
            answer = self._answer(f"{question.name}: {question.help} [{shown}]: ").lower()
            if not answer:
                return default
            if answer in (*_YES, *_NO):
                return answer in _YES
            self._line(f"`{answer}` is neither yes nor no")

    def data(self, text: str) -> None:
        """Write a line of data to stdout."""
        self._out.write(f"{text}\n")
        self._out.flush()

    def bytes(self, data: bytes) -> None:
        """Write data to stdout as it is, whatever its encoding."""
        self._out.flush()
        self._out.buffer.write(data)
        self._out.buffer.flush()

    def json(self, value: dict[str, object]) -> None:
        """Write one JSON object to stdout."""
        self.data(json.dumps(value, indent=2, ensure_ascii=False))

    def _answer(self, prompt: str) -> str:
        self._write(f"{_CLEAR_LINE if self._live else ''}{prompt}")
        line = sys.stdin.readline()
        if not line:
            raise CannotProceed(
                "the input ended before every question was answered",
                hint="add --yes to take the default answers",
            )
        return line.strip()

    def _line(self, text: str) -> None:
        self._write(f"{_CLEAR_LINE if self._live else ''}{text}\n")

    def _write(self, text: str) -> None:
        encoding = self._err.encoding or "utf-8"
        self._err.write(text.encode(encoding, "replace").decode(encoding))
        self._err.flush()

    def _painted(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colour else text


def _can_say(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
