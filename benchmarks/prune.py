"""What retention costs the relay: claims while 1,000,000 sent messages are pruned, and without.

The application's own code on a real PostgreSQL (`TEST_DATABASE_URL`, else the wheel's), in a
process of its own. One process claims, settles and prunes, as a relay does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Figure, Kind

TEMPLATE = Path(__file__).resolve().parents[1] / "template"
LIMIT = 2.0


def prune(rounds: int) -> list[Figure]:
    """Measure the 99th percentile of a claim; `rounds` scales nothing, one run is long enough."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("prune_load.py"))],
        env=os.environ | {"PYTHONPATH": str(TEMPLATE)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    title = f"claim p99 while {found['pruned']:,} rows go ({found['claims_while']:,} claims)"
    return [
        Figure(
            name="prune",
            subject=title,
            subject_seconds=found["p99_while"],
            reference=f"claim p99 without ({found['claims_without']:,} claims)",
            reference_seconds=found["p99_without"],
            kind=Kind.RATIO,
            limit=LIMIT,
            rounds=min(rounds, 1),
        )
    ]
