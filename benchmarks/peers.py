"""`python -m benchmarks.peers --harness DIR`: our relay beside its peers, in one run.

DIR holds the side-by-side harness (`bench.py` and `adapters/`), which installs the peers, Node 22
and its own PostgreSQL into $BENCH_HOME; nginx must be on PATH. Options after `--` go to it.
Ours and the limit that also writes attempt rows are added from `benchmarks/adapters`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SYSTEMS = "relay,sql-limit:attempts,sql-limit:keep,graphile*,txoutbox,pg-boss"


def entries(harness: Path) -> list[dict[str, object]]:
    """What the harness has to know of our two programs; they run in this environment."""
    env = {"BENCH_HARNESS": str(harness)}
    return [
        {"key": "relay", "argv": [sys.executable, str(HERE / "adapters" / "relay.py")], "env": env},
        {
            "key": "sql-limit:attempts",
            "argv": [sys.executable, str(HERE / "adapters" / "limit.py")],
            "env": env,
            "parts": ["drain", "history"],
        },
    ]


def main() -> int:
    """Run it and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--harness", type=Path, required=True, help="folder of bench.py")
    parser.add_argument("--only", default=SYSTEMS, help=f"systems (default {SYSTEMS})")
    parser.add_argument("options", nargs="*", help="for bench.py, after --")
    given = parser.parse_args()
    harness = given.harness.resolve()
    if not (harness / "bench.py").is_file():
        parser.error(f"there is no bench.py in {harness}")
    with tempfile.TemporaryDirectory() as folder:
        adapters = Path(folder) / "ours.json"
        adapters.write_text(json.dumps(entries(harness)), "utf-8")
        env = os.environ | {"BENCH_ADAPTERS": str(adapters), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, str(harness / "bench.py"), "--only", given.only, *given.options]
        return subprocess.run(command, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
