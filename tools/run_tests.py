"""Runs the test stages one after another and prints their counts.

    python -m tools.run_tests [STAGE]...      default: every stage but `browser`

scaffolder   tests of the command line that generates
upgrade      regeneration: every case, random edits, kills
acceptance   what the README tells a newcomer to type, from `pipx run` to a verified webhook
template     the template's own tests, in place, on SQLite and PostgreSQL
generated    a project made by the real `scaffolder new`: its own `make check` and its tests, with
             foreign APP_ variables in the environment
minimal      `--preset minimal`, on the tools of the stage before: the tests of what looks at which
             features exist; the rest is the same code as in `generated`
browser      pages in Chromium (needs Chromium)
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".work"
FOREIGN = {"APP_DATABASE_URL": "postgresql+asyncpg://nobody@127.0.0.1:1/x", "APP_LOG_LEVEL": "no"}


@dataclass(frozen=True, slots=True)
class Counts:
    """How the tests of one stage ended."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> int:
    """Run a command and show what it prints; its exit code."""
    print(f"$ {' '.join(command)}   (in {os.path.relpath(folder, ROOT)})", flush=True)
    merged = os.environ | (environment or {})
    return subprocess.run(command, cwd=folder, env=merged, check=False).returncode


def pytest(
    name: str,
    python: Path,
    folder: Path,
    *arguments: str,
    environment: dict[str, str] | None = None,
) -> Counts:
    """Run pytest in a folder; counts come from its report, a crash counts as a failure."""
    report = WORK / "reports" / f"{name}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile"]
    command += [f"--junitxml={report}", *arguments]
    code = run(command, folder, environment)
    counts = read_report(report)
    broken_otherwise = code != 0 and counts.failed == 0
    return counts + Counts(failed=int(broken_otherwise))


def read_report(report: Path) -> Counts:
    """The counts of a JUnit report; nothing if there is none."""
    if not report.exists():
        return Counts()
    total = Counts()
    for suite in ET.parse(report).getroot().iter("testsuite"):
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        total += Counts(int(suite.get("tests", 0)) - failed - skipped, failed, skipped)
    return total


def scaffolder() -> Counts:
    """Tests of the scaffolder."""
    return pytest("scaffolder", Path(sys.executable), ROOT, "tests/scaffolder")


def upgrade() -> Counts:
    """Tests of the upgrade of a generated project."""
    return pytest("upgrade", Path(sys.executable), ROOT, "tests/upgrade")


def acceptance() -> Counts:
    """The main job from the outside, on SQLite and PostgreSQL."""
    return pytest("acceptance", Path(sys.executable), ROOT, "tests/acceptance")


def template() -> Counts:
    """Tests of the template, in place."""
    ignore = "--ignore=tests/browser"
    return pytest("template", Path(sys.executable), ROOT / "template", ignore)


def generate(parent: Path, *arguments: str) -> Path | None:
    """A project `shop` made by the real command line; None when that failed."""
    folder = parent / "shop"
    shutil.rmtree(folder, ignore_errors=True)
    parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "scaffolder", "new", "shop", "--yes", "--no-git", *arguments]
    return folder if run(command, parent) == 0 else None


def generated() -> Counts:
    """The default project: `make check`, then its tests."""
    folder = generate(WORK / "full")
    if folder is None or run(["make", "check"], folder, FOREIGN) != 0:
        return Counts(failed=1)
    python = folder / ".venv" / "bin" / "python"
    left_out = ["--ignore=tests/browser", "--ignore=tests/crash"]
    return pytest("generated", python, folder, *left_out, environment=FOREIGN)


def minimal() -> Counts:
    """The project without any feature, on the tools installed by `generated`."""
    folder = generate(WORK / "minimal", "--preset", "minimal", "--no-install")
    if folder is None:
        return Counts(failed=1)
    python = WORK / "full" / "shop" / ".venv" / "bin" / "python"
    tests = ["tests/api", "tests/db", "tests/docs", "tests/handlers", "tests/test_secrets.py"]
    return pytest("minimal", python, folder, *tests, environment=FOREIGN)


def browser() -> Counts:
    """The pages in a real browser."""
    return pytest("browser", Path(sys.executable), ROOT / "template", "tests/browser")


STAGES: dict[str, Callable[[], Counts]] = {
    f.__name__: f for f in (scaffolder, upgrade, acceptance, template, generated, minimal, browser)
}
LEFT_OUT = {"browser": "needs Chromium: make test-browser"}
SHORTER = (
    "generated: tests/crash left out, the same code ran in `template`",
    "minimal: only the tests that depend on which features there are",
)


def main() -> int:
    """Run the stages; 0 when nothing failed and every stage ran a test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="*", metavar="STAGE")
    chosen = parser.parse_args().stages or [s for s in STAGES if s not in LEFT_OUT]
    # A shell script's `command &` ignores it, and so would all that is interrupted in a test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    total, lines = Counts(), []
    for name in chosen:
        started = time.monotonic()
        counts = STAGES[name]()
        if counts.passed == 0:
            counts += Counts(failed=1)
        total += counts
        lines.append(f"{name:<12}{counts}   ({time.monotonic() - started:.0f} s)")
    print("\n" + "\n".join(lines))
    print(*(line for line in SHORTER if line.partition(":")[0] in chosen), sep="\n")
    for name, reason in LEFT_OUT.items():
        if name not in chosen:
            print(f"{name:<12}left out: {reason}")
    print(f"{total}")
    return int(total.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
