"""Ctrl-C in the middle: whatever was written is taken back, and the message says so."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import SCAFFOLDER, Machine, Run

DEADLINE_SECONDS = 30


def _wait_for(condition: Callable[[], bool], child: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert child.poll() is None, f"the command ended too early: {child.communicate()}"
        assert time.monotonic() < deadline, "the instant to interrupt never came"
        time.sleep(0.001)


def _interrupt(
    machine: Machine,
    arguments: tuple[str, ...],
    instant: Callable[[Path], bool],
    *,
    number: signal.Signals = signal.SIGINT,
    times: int = 1,
    cwd: Path | None = None,
    path: str = "",
) -> Run:
    folder = cwd or machine.work
    child = subprocess.Popen(
        [*SCAFFOLDER, *arguments],
        cwd=folder,
        env=machine.env | {"PATH": f"{path}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_for(lambda: instant(folder), child)
        for _ in range(times):
            child.send_signal(number)
        out, err = child.communicate(timeout=DEADLINE_SECONDS)
    finally:
        child.kill()
    return Run(child.returncode, out, err)


def _taken_back(run: Run) -> None:
    assert run.code == 1, run.err
    assert run.out == ""
    assert "Traceback" not in run.err
    assert run.err.splitlines()[-2:] == [
        "error: interrupted, and nothing is left of the project",
        "hint: run the same command again",
    ]


def _staged(folder: Path, *below: str) -> bool:
    return any(box.joinpath(*below).exists() for box in folder.glob(".scaffolder-*"))


INSTANTS: dict[str, Callable[[Path], bool]] = {
    "the staging folder is new": _staged,
    "the template is unpacked": lambda folder: _staged(folder, "template", "template"),
    "the first file is rendered": lambda folder: _staged(folder, "project", ".gitattributes"),
    "the application is being rendered": lambda folder: _staged(folder, "project", "app"),
    "the repository is new": lambda folder: _staged(folder, "project", ".git"),
    "the environment is being made": lambda folder: any(
        (place / ".venv" / "pyvenv.cfg").exists() for place in (folder, folder / "my-app")
    ),
}


@pytest.mark.parametrize("instant", INSTANTS)
def test_an_interrupt_leaves_nothing(machine: Machine, instant: str) -> None:
    """At every stage, up to the installation."""
    run = _interrupt(machine, ("new", "my-app", "--yes"), INSTANTS[instant])
    _taken_back(run)
    assert machine.left_behind() == []


@pytest.mark.parametrize("instant", ["the first file is rendered", "the environment is being made"])
def test_an_interrupt_leaves_the_current_folder_empty(machine: Machine, instant: str) -> None:
    """`new .` takes its own entries back and leaves the folder."""
    folder = machine.work / "my-app"
    folder.mkdir()
    run = _interrupt(machine, ("new", ".", "--yes"), INSTANTS[instant], cwd=folder)
    _taken_back(run)
    assert machine.left_behind() == ["my-app"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_is_an_interrupt_too(machine: Machine, number: signal.Signals) -> None:
    """A closed terminal and a supervisor clean up as Ctrl-C does."""
    instant = INSTANTS["the application is being rendered"]
    _taken_back(_interrupt(machine, ("new", "my-app", "--yes"), instant, number=number))
    assert machine.left_behind() == []


def test_an_impatient_second_interrupt_does_not_stop_the_clean_up(machine: Machine) -> None:
    """Ctrl-C five times in a row is still one interrupt."""
    instant = INSTANTS["the environment is being made"]
    _taken_back(_interrupt(machine, ("new", "my-app", "--yes"), instant, times=5))
    assert machine.left_behind() == []


def test_an_interrupt_ends_the_programs_that_were_started(machine: Machine, tmp_path: Path) -> None:
    """No child goes on writing where the project was removed."""
    folder = tmp_path / "path"
    folder.mkdir()
    pid_file, pipe = tmp_path / "pid", tmp_path / "pipe"
    os.mkfifo(pipe)
    git = folder / "git"
    git.write_text(
        f"#!/bin/sh\n(echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file})\ncat {pipe}\n"
    )
    git.chmod(0o755)
    run = _interrupt(
        machine,
        ("new", "my-app", "--yes"),
        lambda _folder: pid_file.exists(),
        path=f"{folder}{os.pathsep}",
    )
    _taken_back(run)
    assert machine.left_behind() == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
