"""`python -m benchmarks`: a table on stdout, the same as JSON in `benchmarks/results/`."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import new, prune, relay, upgrade
from benchmarks.measure import Figure, Kind
from scaffolder import __version__

BENCHMARKS: dict[str, Callable[[int], list[Figure]]] = {
    "help": new.help_text,
    "new": new.generation,
    "app-import": new.app_import,
    "upgrade": upgrade.upgrade,
    "prune": prune.prune,
    "http-drain": relay.http,
    "history": relay.history,
    "fairness": relay.fairness,
    "memory": relay.memory,
    "sqlite": relay.sqlite,
}
RESULTS = Path(__file__).resolve().parent / "results"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as lines of equal columns."""
    rows = [("benchmark", "subject", "s", "reference", "s", "value", "limit", "")]
    for figure in figures:
        unit = "x" if figure.kind is Kind.RATIO else figure.unit
        rows.append(
            (
                figure.name,
                figure.subject,
                f"{figure.subject_seconds:.3f}",
                figure.reference,
                f"{figure.reference_seconds:.3f}",
                f"{figure.value:.2f} {unit}",
                f"{figure.limit:g} {unit}",
                "ok" if figure.within else "OVER",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def main() -> int:
    """Run the named benchmarks, all by default; exit 1 when a limit is passed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=7, help="runs of each side (default 7)")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown or options.rounds < 1:
        parser.error(f"unknown benchmark {unknown[0]}" if unknown else "--rounds is at least 1")
    figures: list[Figure] = []
    for name in options.names or BENCHMARKS:
        sys.stderr.write(f"measuring {name}, {options.rounds} rounds\n")
        figures += BENCHMARKS[name](options.rounds)
    sys.stdout.write(f"{table(figures)}\n")
    RESULTS.mkdir(exist_ok=True)
    report = {
        "version": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "figures": [figure.as_json() for figure in figures],
    }
    (RESULTS / "latest.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return 0 if all(figure.within for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
