"""What hints call this program: a newcomer has `.venv/bin/my-app` and nothing on PATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, Project

NAME = "shop-under-test"
SCRIPT = f"#!{sys.executable}\nfrom app.cli import run\nrun()\n"
METADATA = {
    "METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1\n",
    "entry_points.txt": f"[console_scripts]\n{NAME} = app.cli:run\n",
}


@pytest.fixture
def installed(clone: Project) -> Project:
    """A clone without `.env` whose command is in `.venv/bin`, as an installation leaves it."""
    script = clone.folder / ".venv" / "bin" / NAME
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    script.chmod(0o755)
    for name, text in METADATA.items():
        path = clone.folder / "packages" / f"{NAME.replace('-', '_')}-1.dist-info" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    packages = os.pathsep.join([str(clone.folder / "packages"), str(ROOT)])
    clone.variables["PYTHONPATH"] = packages
    return clone


def hint(project: Project, command: str, *arguments: str, cwd: Path | None = None) -> str:
    """The last line that the command prints, typed into a shell."""
    done = subprocess.run(
        ["sh", "-c", " ".join([command, *arguments])], cwd=cwd or project.folder,
        env=project.environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode in (1, 2), done.stderr
    return done.stderr.splitlines()[-1]


def test_a_hint_calls_the_program_as_the_person_did(installed: Project):
    """By its path where it was called by its path, from wherever that was."""
    typed = f".venv/bin/{NAME}"
    assert hint(installed, typed, "keys", "list") == f"hint: run: {typed} init"
    below = installed.folder / "below"
    below.mkdir()
    (below / ".env.example").touch()
    absolute = installed.folder / typed
    for called in (f"../{typed}", str(absolute)):
        answer = hint(installed, called, "keys", "list", cwd=below)
        assert answer == f"hint: run: {called} init"
    assert hint(installed, str(absolute), "keys", "list") == f"hint: run: {typed} init"


def test_a_hint_has_the_bare_name_where_the_shell_finds_it(installed: Project):
    """Another program of that name on PATH does not count."""
    scripts = installed.folder / ".venv" / "bin"
    path = installed.variables["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    assert hint(installed, NAME, "keys", "list") == f"hint: run: {NAME} init"
    other = installed.folder / "other" / NAME
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    installed.variables["PATH"] = f"{other.parent}{os.pathsep}{path}"
    answer = hint(installed, f".venv/bin/{NAME}", "keys", "list")
    assert answer == f"hint: run: .venv/bin/{NAME} init"


def test_a_mistake_in_the_command_line_ends_with_the_help_to_look_at(installed: Project):
    """Sentence and hint, as for every other mistake."""
    typed = f".venv/bin/{NAME}"
    for arguments, command in (
        (["messages", "list", "--nope"], "messages list"),
        (["messages", "list", "--status", "lost"], "messages list"),
        (["messages", "list", "--status"], "messages list"),
        (["keys", "create"], "keys create"),
        (["endpoints", "nope"], "endpoints"),
    ):
        assert hint(installed, typed, *arguments) == f"hint: run: {typed} {command} --help"
    assert hint(installed, typed, "pasked") == f"hint: run: {typed} --help"
