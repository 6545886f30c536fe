"""The step that makes a new project runnable: a virtual environment with its dependencies."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scaffolder import process

VENV = ".venv"
# Would send the packages elsewhere than into the new environment.
_MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Step:
    """One command, as it is run and as a person types it in the project."""

    title: str
    command: tuple[str, ...]
    typed: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The step that failed, what it said last, and the commands that are still to be run."""

    title: str
    output: str
    commands: tuple[str, ...]


def scripts_folder() -> str:
    """Return where a virtual environment keeps its commands, relative to the project."""
    return f"{VENV}/Scripts" if os.name == "nt" else f"{VENV}/bin"


def steps(project: Path) -> tuple[Step, ...]:
    """Return what has to be run in a fresh project."""
    python = f"{scripts_folder()}/python"
    pip = ["-m", "pip", "install", "--editable", ".[dev]"]
    if (project / "constraints.txt").is_file():
        pip += ["--constraint", "constraints.txt"]
    return (
        Step(
            "virtual environment", (sys.executable, "-m", "venv", VENV), f"python3 -m venv {VENV}"
        ),
        Step("dependencies", (str(project / python), *pip), shlex.join([python, *pip])),
    )


def typed(project: Path) -> str:
    """Return the whole installation as one line to type."""
    return " && ".join(step.typed for step in steps(project))


def install(
    project: Path, *, on_line: Callable[[str], None], on_done: Callable[[str], None]
) -> Failure | None:
    """Run the steps; stop at the first that fails and return what is left to do."""
    todo: Sequence[Step] = steps(project)
    environment = {key: value for key, value in os.environ.items() if key not in _MISLEADING}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    while todo:
        step, *rest = todo
        on_line(step.title)
        finished = process.run(step.command, cwd=project, env=environment, on_line=on_line)
        if not finished.ok:
            return Failure(step.title, finished.output, tuple(each.typed for each in todo))
        on_done(step.title)
        todo = rest
    return None
