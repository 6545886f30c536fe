"""`dev`: a supervisor that runs one child and starts it anew when code in `app/` changes.

The supervisor loads nothing of the application, so that no mistake in it can end the supervisor.
The child (`serve.py`, `serve_for_development`) serves HTTP and relays in one process. A child that
ends by itself, say at a syntax error, is started anew at the next change.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from app.cli.options import Port

POLL_SECONDS = 0.5
STOP_SECONDS = 25.0
# A child that ends with this code can't be helped by a change of code.
HOPELESS = 2


def dev(port: Port = 8000) -> None:
    """Migrate, serve and relay in one process, anew when code changes."""
    from app.cli.runtime import settings_of_command
    from app.cli.serve import listen

    settings_of_command()
    listen("127.0.0.1", port).close()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        _supervise(port)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _supervise(port: int) -> NoReturn:
    folder = Path(__file__).parent.parent
    seen = snapshot(folder)
    child = _start(port, first=True)
    told = False
    try:
        while True:
            time.sleep(POLL_SECONDS)
            if child.poll() == HOPELESS:
                sys.exit(HOPELESS)
            if child.poll() is not None and not told:
                told = True
                print("ended; waiting for a change in app/, Ctrl-C stops", file=sys.stderr)
            now = snapshot(folder)
            if now != seen:
                changed = sorted(set(now.items()) ^ set(seen.items()))[0][0]
                print(f"{os.path.relpath(changed)} changed, starting anew", file=sys.stderr)
                seen, told = now, False
                _end(child)
                child = _start(port, first=False)
    finally:
        _end(child)


def snapshot(folder: Path) -> dict[str, float]:
    """Every Python file and template below `folder`, and `.env`, with the time of its change."""
    return dict(_times(folder))


def _times(folder: Path) -> Iterator[tuple[str, float]]:
    for path in [*_sources(folder), ".env"]:
        try:
            yield path, os.stat(path).st_mtime
        except FileNotFoundError:  # an editor is just replacing it
            continue


def _sources(folder: Path) -> Iterator[str]:
    for directory, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(directory, n) for n in files if n.endswith((".py", ".html")))


def _start(port: int, *, first: bool) -> subprocess.Popen[bytes]:
    # The child shares the terminal: a debugger works, and Ctrl-C reaches it directly.
    command = [sys.executable, "-m", "app", "serve-for-development", "--port", str(port)]
    return subprocess.Popen([*command, "--first"] if first else command)  # noqa: S603 - constant


def _end(child: subprocess.Popen[bytes]) -> None:
    """Stop the child gracefully; cut it if it does not end in time, or at a second Ctrl-C."""
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
        child.wait()
