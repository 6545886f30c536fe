"""What the relay of a generated application promises, beside what it depends on.

Each benchmark is a process of its own (`relay_load.py`) with the template on its path and a real
PostgreSQL: `TEST_DATABASE_URL`, else the wheel's. The peers are measured by `benchmarks.peers`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Figure, Kind

HERE = Path(__file__).resolve().parent
TEMPLATE = HERE.parent / "template"
LEAST_SECONDS = 0.05  # G8: max(2 times idle, 50 ms)


def _measure(name: str, rounds: int) -> dict[str, float]:
    path = os.pathsep.join([os.environ.get("BENCH_TEMPLATE", str(TEMPLATE)), str(HERE)])
    done = subprocess.run(
        [sys.executable, str(HERE / "relay_load.py"), name, str(min(rounds, 3))],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _figure(
    name: str, subject: str, value: float, reference: str, against: float, limit: float,
    kind: Kind = Kind.RATIO, unit: str = "s",
) -> Figure:  # fmt: skip
    return Figure(name, subject, value, reference, against, kind, limit, 1, unit)


def history(rounds: int) -> list[Figure]:
    """A drain without I/O with sent messages kept, against the same without."""
    found = _measure("history", rounds)
    subject = f"relay, {found['count']:,.0f} sent rows kept"
    pair = found["subject"], "relay, none kept", found["reference"]
    return [_figure("history", subject, *pair, limit=1 / 0.9)]


def http(rounds: int) -> list[Figure]:
    """Signed webhooks, against the bare loop of the same client."""
    found = _measure("http", rounds)
    subject = f"{found['count']:,.0f} webhooks, relay"
    pair = found["subject"], "bare loop of the client", found["reference"]
    return [_figure("http-drain", subject, *pair, limit=1 / 0.7)]


def fairness(rounds: int) -> list[Figure]:
    """A fresh message beside a backlog whose endpoints answer in 2 s (G8), p99."""
    figures = []
    for name, title in (("one", "one endpoint"), ("tenant", "1,000 endpoints")):
        found = _measure(f"fairness-{name}", rounds)
        bound = max(2 * found["idle"], LEAST_SECONDS)
        pair = found["subject"], "max(2 x idle, 50 ms)", bound
        figures.append(_figure("fairness", f"fresh beside {title}, p99", *pair, limit=1.0))
    return figures


def memory(rounds: int) -> list[Figure]:
    """What 100,000 deliveries leave behind in the process."""
    found = _measure("memory", rounds)
    pair = found["subject"], "after 10,000", found["reference"]
    title = "relay after 110,000 deliveries"
    return [_figure("memory", title, *pair, limit=5.0, kind=Kind.DIFFERENCE, unit="MB")]


def sqlite(rounds: int) -> list[Figure]:
    """The embedded database: at least 3,000/s, and p99 from COMMIT to the receiver."""
    found = _measure("sqlite", rounds)
    count = found["count"]
    return [
        _figure(
            "sqlite", f"{count:,.0f} messages, relay", found["drain"], "3,000/s", count / 3000, 1.0
        ),
        _figure("sqlite", "COMMIT to receiver at 50/s, p99", found["p99"], "60 ms", 0.06, 1.0),
    ]
