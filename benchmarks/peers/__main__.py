"""`python -m benchmarks.peers`: two tables on stdout, all figures as JSON in a file."""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import report
from benchmarks.peers.install import Unavailable, install
from benchmarks.peers.run import Found, measure_all, steps
from benchmarks.peers.servers import postgresql, receiver
from benchmarks.peers.systems import KEYS, Part, systems
from benchmarks.peers.verdicts import Outcome, verdicts

RESULTS = Path(__file__).resolve().parents[1] / "results"


def _list(allowed: Sequence[str], text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in allowed:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(allowed)}")
    return names


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return rounds


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument(
        "--only", default=list(KEYS), type=lambda text: _list(KEYS, text), metavar="SYSTEM,...",
        help=f"default: {', '.join(KEYS)}",
    )  # fmt: skip
    parser.add_argument(
        "--parts", default=list(Part), type=lambda text: _list(list(Part), text),
        metavar="PART,...", help=f"default: {', '.join(Part)}",
    )  # fmt: skip
    parser.add_argument("--rounds", default=3, type=_rounds, help="default 3")
    parser.add_argument("--out", default=RESULTS / "peers.json", type=Path, metavar="FILE")
    return parser.parse_args()


def _measured(options: argparse.Namespace) -> Found:
    installed = install()
    with postgresql() as server, receiver(installed.nginx) as receiving:
        chosen = [
            system
            for system in systems(installed, server, receiving.url)
            if system.key in options.only
        ]
        planned = steps(options.parts, options.rounds, receiving)
        return asyncio.run(measure_all(server, chosen, planned, options.rounds))


def main() -> int:
    """Exit code 1: something is missed or could not be measured; 2: the run is not possible."""
    options, began = _options(), time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are stopped then too
    try:
        found = _measured(options)
    except Unavailable as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130
    measured = report.figures(found)
    judged = verdicts(measured)
    tables = [report.table(measured, found.versions)]
    if judged:
        tables.append(report.verdict_table(judged))
    sys.stdout.write("\n\n".join(tables) + "\n")
    sys.stderr.writelines(f"error: {what} failed, see above\n" for what in found.errors)
    everything = report.as_json(found, measured, judged, time.monotonic() - began)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(everything, indent=2) + "\n", "utf-8")
    missed = any(verdict.outcome is Outcome.MISSED for verdict in judged)
    return int(missed or bool(found.errors))


if __name__ == "__main__":
    sys.exit(main())
