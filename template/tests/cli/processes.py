"""Long-running commands in tests: wait for a condition, stop, look at how they ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import httpx

from tests.cli.command import Project

SECONDS = 60


def wait_until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Return once it holds; fail naming `what` when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def answers(url: str) -> bool:
    """Whether a GET of the URL gives 200."""
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def read_until(stream: TextIO | None, words: str) -> str:
    """Read lines until one contains the words; everything read. Fails where the stream ends."""
    assert stream is not None
    read = ""
    while words not in read:
        line = stream.readline()
        assert line, f"{words!r} is not in what it said: {read}"
        read += line
    return read


@contextmanager
def running(project: Project, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on; killed at the end if the test has not stopped it."""
    process = project.start(*arguments)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        print(*process.communicate(), file=sys.stderr)  # shown when the test has failed


@contextmanager
def serving(project: Project, command: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """`serve` or `dev`, once it is ready."""
    with running(project, command, "--port", port) as process:

        def ready() -> bool:
            assert process.poll() is None, process.communicate()
            return answers(f"http://127.0.0.1:{port}/health/ready")

        wait_until(ready, f"{command} answers")
        yield process


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str, str]:
    """Signal it, wait; exit code, stdout, stderr."""
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err
