"""Real processes of the application: started like in production, killed like in production."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 60.0


class Process:
    """One command of the application, as a process that can be killed, frozen and woken."""

    def __init__(self, environment: dict[str, str], *arguments: str, log: Path) -> None:
        self._log = log.open("wb")
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "app", *arguments],
            cwd=log.parent,
            env=environment,
            stdout=self._log,
            stderr=self._log,
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    def kill(self) -> None:
        """SIGKILL: no clean-up of any kind."""
        self._popen.kill()
        self._popen.wait(STOP_SECONDS)

    def freeze(self) -> None:
        """SIGSTOP: alive, and doing nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM, then wait; the exit code."""
        if self._popen.poll() is None:
            self._popen.terminate()
        return self._popen.wait(STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._popen.poll() is None:
            self.wake()
            self.kill()
        self._log.close()


class Application:
    """Commands of the application against one database."""

    def __init__(self, folder: Path, url: str, **settings: str) -> None:
        self.folder = folder
        clean = {k: v for k, v in os.environ.items() if not k.startswith("APP_")}
        self.environment = clean | {
            "APP_ENV": "test",
            "APP_SECRET_KEY": "a-secret-of-the-test-suite-0123456789",
            "APP_ALLOW_PRIVATE_TARGETS": "true",
            "APP_DATABASE_URL": url,
            "PYTHONPATH": str(ROOT),
            **settings,
        }
        self._started = 0

    def run(self, *arguments: str) -> str:
        """A command, to its end; its stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=STOP_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def start(self, *arguments: str) -> Iterator[Process]:
        """A command that goes on; it is killed at the end if it still runs."""
        self._started += 1
        log = self.folder / f"{self._started}-{arguments[0]}.log"
        with Process(self.environment, *arguments, log=log) as process:
            yield process
