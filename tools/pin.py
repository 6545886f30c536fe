"""Refreshes the pinned versions: `python -m tools.pin`, or `--check` to only compare.

Ranges live in `pyproject.toml` (this repository) and `template/pyproject.toml.jinja` (a generated
project). This asks pip which versions they resolve to today and writes one `name==version` line
each into the `constraints.txt` beside it. Nothing is installed because of such a file, so names for
other platforms and Pythons do no harm.
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
REPOSITORY = ROOT / "pyproject.toml"
TEMPLATE = ROOT / "template" / "pyproject.toml.jinja"
HEADER = """\
# The exact versions that were tested together; pyproject.toml holds the ranges.
# pip install -e '.[dev]' -c constraints.txt
"""


def requirements(project_file: Path = TEMPLATE) -> list[str]:
    """Return what a project needs to run and to be tested; the file is TOML even unrendered."""
    project = tomllib.loads(project_file.read_text("utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["dev"]]


def resolve(lines: list[str]) -> dict[str, str]:
    """Return the version that pip chooses for everything the lines need."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        pip += ["--ignore-installed", "--report", str(report), *lines]
        subprocess.run(pip, check=True)
        installs = json.loads(report.read_text("utf-8"))["install"]
    return {normalised(each["metadata"]["name"]): each["metadata"]["version"] for each in installs}


def main() -> int:
    """Write the file, or tell whether it is current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 on a change")
    check = parser.parse_args().check
    current = True
    for project_file in (REPOSITORY, TEMPLATE):
        pins = resolve(requirements(project_file))
        text = HEADER + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))
        constraints = project_file.parent / "constraints.txt"
        current = current and constraints.exists() and constraints.read_text("utf-8") == text
        if not check:
            constraints.write_text(text, "utf-8")
            sys.stderr.write(f"{len(pins)} versions in {constraints.relative_to(ROOT)}\n")
    return int(check and not current)


if __name__ == "__main__":
    sys.exit(main())
