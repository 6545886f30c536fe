"""Takes one guard out of the generated application and shows which test turns red.

    python -m tools.mutants [NAME]...     default: all; the quick ones run in seconds each

Each mutant is a copy of the template with one edit. Its test must fail there and pass on the
template as it is: a test that stays green has not been watching. Prints a table; exit code 1 if a
mutant survives, or if an edit no longer finds its place.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tools.guards import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "template"
SECONDS = 180


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a mutant ended."""

    mutant: Mutant
    word: str
    seconds: float


def edited(mutant: Mutant, folder: Path) -> bool:
    """Make the edit; False when its place is not there, or there is more than one."""
    path = folder / mutant.path
    source = path.read_text()
    if source.count(mutant.old) != 1:
        return False
    path.write_text(source.replace(mutant.old, mutant.new))
    return True


def tested(folder: Path, *tests: str) -> bool:
    """Whether the tests pass there."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=SECONDS)
    if done.returncode not in (0, 1):  # an error of the run itself is no verdict
        raise SystemExit(done.stdout.decode() + done.stderr.decode())
    return done.returncode == 0


def tried(mutant: Mutant) -> Verdict:
    """Run its test in a copy of the template with the edit."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        folder = Path(place) / "template"
        ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "data")
        shutil.copytree(TEMPLATE, folder, ignore=ignored)
        word = "NO SUCH PLACE"
        if edited(mutant, folder):
            word = "SURVIVED" if tested(folder, mutant.test) else "caught"
    return Verdict(mutant, word, time.monotonic() - started)


def main() -> int:
    """Try each and print the table; 1 unless every one is caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="words that a name contains")
    names = parser.parse_args().names
    chosen = [m for m in MUTANTS if not names or any(name in m.name for name in names)]
    if not tested(TEMPLATE, *sorted({mutant.test for mutant in chosen})):
        print("the tests fail without any mutant: nothing is proven", file=sys.stderr)
        return 1
    verdicts = []
    for mutant in chosen:
        verdicts.append(tried(mutant))
        last = verdicts[-1]
        print(f"{last.word:<14}{mutant.name:<58}{last.seconds:>5.0f} s  {mutant.test}", flush=True)
    caught = sum(verdict.word == "caught" for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} caught")
    return int(caught < len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
