"""Refreshes `template/constraints.txt`: `python -m tools.pin`, or `--check` to only compare.

Ranges live in `template/pyproject.toml.jinja`; this asks pip which versions they resolve to
today and writes one `name==version` line each. The file is a list of constraints and nothing
is installed because of it, so names for other platforms and Pythons do no harm.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from scaffolder.naming import normalised

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "template" / "constraints.txt"
HEADER = """\
# The exact versions that were tested together; pyproject.toml holds the ranges.
# pip install -e '.[dev]' -c constraints.txt
"""


def requirements(*, dev: bool) -> list[str]:
    """Return the requirement lines of the generated project."""
    project = tomllib.loads((ROOT / "template/pyproject.toml.jinja").read_text("utf-8"))["project"]
    extra = project["optional-dependencies"]["dev"] if dev else []
    return [*project["dependencies"], *extra]


def resolve(lines: list[str]) -> dict[str, str]:
    """Return the version that pip chooses for everything the lines need."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        pip += ["--ignore-installed", "--report", str(report), *lines]
        subprocess.run(pip, check=True)
        installs = json.loads(report.read_text("utf-8"))["install"]
    return {
        normalised(each["metadata"]["name"]): each["metadata"]["version"] for each in installs
    }


def main() -> int:
    """Write the file, or tell whether it is current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 on a change")
    check = parser.parse_args().check
    pins = resolve(requirements(dev=True))
    text = HEADER + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))
    if check:
        return 0 if CONSTRAINTS.read_text("utf-8") == text else 1
    CONSTRAINTS.write_text(text, "utf-8")
    sys.stderr.write(f"{len(pins)} versions in {CONSTRAINTS.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
