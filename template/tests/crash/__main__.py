"""`make crash`: the long form of the crash run; `--short` for the one of `make test`."""

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.crash.storm import LONG, SHORT, storm


def main() -> int:
    """Print the ledger; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    plan = replace(SHORT if given.short else LONG, seed=given.seed)
    print(f"{plan}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        ledger = asyncio.run(storm(Path(folder), plan, partial(print, flush=True)))
    print(f"{ledger}\n{time.monotonic() - started:.0f} s")
    for line in ledger.broken:
        print(f"BROKEN: {line}")
    return int(bool(ledger.broken))


if __name__ == "__main__":
    sys.exit(main())
