"""Runs the real command in a folder of its own, with an environment of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SECRET = "a-secret-of-the-test-suite-0123456789"
SECONDS = 60


@dataclass
class Project:
    """A working directory and the variables that commands in it see."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("APP_")}
        return inherited | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"} | self.variables

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "app", *map(str, arguments)]

    def run(self, *arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run to the end; the caller looks at exit code and output."""
        return subprocess.run(
            self.command(*arguments), cwd=self.folder, env=self.environment | changes,
            capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def ok(self, *arguments: object) -> str:
        """Run a command that must succeed; its stdout."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: object) -> Any:
        """Run with `--json`; what it printed."""
        return json.loads(self.ok(*arguments, "--json"))

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start a command that goes on; the caller stops it."""
        return subprocess.Popen(
            self.command(*arguments), cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def assert_sentence(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """It failed with `code`, said so in one sentence with a hint on stderr, and nothing else."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line]
    assert lines[-2].startswith("error: ")
    assert lines[-1].startswith("hint: ")
    for word in words:
        assert word in done.stderr
