"""The systems of a run: how each program is started, and which parts it takes part in."""

import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from benchmarks.peers.install import Installed

ADAPTERS = Path(__file__).resolve().parent / "adapters"
REPOSITORY = ADAPTERS.parents[2]


class Part(StrEnum):
    """What is measured."""

    DRAIN = "drain"
    HTTP = "http"
    LATENCY = "latency"
    ENQUEUE = "enqueue"


ALL_PARTS = frozenset(Part)
OURS = "relay"
LIMIT = "sql-limit:keep"
LIMIT_WITH_ATTEMPTS = "sql-limit:attempts"
GRAPHILE = "graphile-worker"
TXOUTBOX = "txoutbox"
PEERS = (GRAPHILE, "pg-boss", "procrastinate", "pgqueuer", TXOUTBOX)
KEYS = (OURS, LIMIT, LIMIT_WITH_ATTEMPTS, *PEERS)


@dataclass(frozen=True, slots=True)
class System:
    """A program that answers the verbs; it has a database of its own."""

    key: str
    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    database: str
    parts: frozenset[Part] = ALL_PARTS


def systems(installed: Installed, server: str, receiver: str) -> list[System]:
    """All of them, ours first."""
    template = os.environ.get("BENCH_TEMPLATE", str(REPOSITORY / "template"))
    common = {"NODE_NO_WARNINGS": "1", "BENCH_URL": receiver}

    def system(key: str, *command: str, path: str, parts: frozenset[Part]) -> System:
        name = "bench_" + "".join(c if c.isalnum() else "_" for c in key)
        url = f"{server.rpartition('/')[0]}/{name}"
        environment = os.environ | common | {"BENCH_DB": url, "PYTHONPATH": path}
        return System(key, command, environment, installed.node_folder, name, parts)

    def python(
        key: str, module: str, *more: str, interpreter: str = str(installed.python),
        path: str = str(REPOSITORY), parts: frozenset[Part] = ALL_PARTS,
    ) -> System:  # fmt: skip
        start = (interpreter, "-m", f"benchmarks.peers.adapters.{module}", *more)
        return system(key, *start, path=path, parts=parts)

    def node(key: str, module: str) -> System:
        start = (str(installed.node), str(ADAPTERS / f"{module}.mjs"))
        return system(key, *start, path="", parts=ALL_PARTS)

    both = os.pathsep.join([str(REPOSITORY), template])
    return [
        python(OURS, "relay", interpreter=sys.executable, path=both),
        python(LIMIT, "sqllimit", "keep"),
        python(LIMIT_WITH_ATTEMPTS, "sqllimit", "attempts", parts=frozenset({Part.DRAIN})),
        node(GRAPHILE, "graphile"),
        node("pg-boss", "pgboss"),
        python("procrastinate", "procrastinate_adapter"),
        python("pgqueuer", "pgqueuer_adapter"),
        python(TXOUTBOX, "txoutbox_adapter"),
    ]
