"""Other programs, run so that an interrupt leaves none of them behind.

A child gets a session of its own: Ctrl-C reaches only this process, which then kills the
child with everything it started. Otherwise pip's own children would go on writing into a
folder that is being removed.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scaffolder import interrupt


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended and what it said on both streams."""

    code: int
    output: str

    @property
    def ok(self) -> bool:
        """Tell whether the program reported success."""
        return self.code == 0


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run a program to its end, without standard input; never raises for its exit code."""
    try:
        with interrupt.shield():
            child = _start(command, cwd, env)
    except OSError as error:
        return Finished(127, f"{command[0]}: {error.strerror}")
    try:
        return Finished(*_follow(child, on_line))
    finally:
        with interrupt.shield():
            _end(child)


def _start(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _follow(
    child: "subprocess.Popen[str]", on_line: Callable[[str], None] | None
) -> tuple[int, str]:
    interrupt.check()
    lines: list[str] = []
    assert child.stdout is not None
    for line in child.stdout:
        interrupt.check()
        lines.append(line)
        if on_line is not None:
            on_line(line.rstrip())
    return child.wait(), "".join(lines)


def _end(child: "subprocess.Popen[str]") -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
