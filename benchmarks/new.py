"""How long a person waits for `scaffolder --help`, `scaffolder new` and the application's import."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Command, Figure, Kind, compare
from scaffolder.packing import unpack
from scaffolder.source import open_snapshot

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sys.executable).parent
ENV = {name: value for name, value in os.environ.items() if not name.startswith(("APP_", "GIT_"))}


def help_text(rounds: int) -> list[Figure]:
    """`--help` against the import of the library that prints it."""
    typer = (sys.executable, "-c", "import typer")
    return [
        compare(
            "help",
            Command("scaffolder --help", (str(SCRIPTS / "scaffolder"), "--help"), ROOT, ENV),
            Command('python -c "import typer"', typer, ROOT, ENV),
            kind=Kind.RATIO,
            limit=3,
            rounds=rounds,
        )
    ]


def generation(rounds: int) -> list[Figure]:
    """`new` against copier alone, both as whole processes on the same template."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        template = folder / "template-repository"
        unpack(open_snapshot().files, template)

        def clear() -> None:
            for project in ("ours", "theirs"):
                shutil.rmtree(folder / project, ignore_errors=True)

        ours = ("new", "ours", "--yes", "--no-install", "--no-git")
        theirs = ("copy", "--defaults", str(template), "theirs")
        return [
            compare(
                "new",
                Command(
                    "scaffolder new --no-install --no-git",
                    (str(SCRIPTS / "scaffolder"), *ours),
                    folder,
                    ENV,
                    clear,
                ),
                Command("copier copy", (str(SCRIPTS / "copier"), *theirs), folder, ENV, clear),
                kind=Kind.RATIO,
                limit=1.2,
                rounds=rounds,
            )
        ]


def app_import(rounds: int) -> list[Figure]:
    """The generated application's import against that of its framework."""
    template = ROOT / "template"
    return [
        compare(
            "app import",
            Command(
                "import app.wiring", (sys.executable, "-c", "import app.wiring"), template, ENV
            ),
            Command("import litestar", (sys.executable, "-c", "import litestar"), template, ENV),
            kind=Kind.DIFFERENCE,
            limit=1.0,
            rounds=rounds,
        )
    ]
