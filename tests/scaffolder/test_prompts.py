"""Questions: asked on a terminal only, defaults shown, and every one has a flag."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest
import yaml

from scaffolder.questions import read_questions

from .conftest import ROOT, SCAFFOLDER, Machine

DEADLINE_SECONDS = 30


@dataclass(slots=True)
class Terminal:
    """The other side of a pseudo terminal that a command runs on."""

    master: int
    child: "subprocess.Popen[bytes]"
    seen: str = field(default="")

    def expect(self, text: str) -> None:
        """Read until `text` was shown."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, f"`{text}` was never shown in: {self.seen}"
            ready, _, _ = select.select([self.master], [], [], 1)
            if ready:
                try:
                    self.seen += os.read(self.master, 4096).decode()
                except OSError:
                    raise AssertionError(
                        f"the command ended before `{text}`: {self.seen}"
                    ) from None
        self.seen = self.seen.partition(text)[2]

    def type(self, text: str) -> None:
        """Type as a person would."""
        os.write(self.master, text.encode())

    def end(self) -> int:
        """Read the rest and return the exit code."""
        with suppress(OSError):
            while chunk := os.read(self.master, 4096):
                self.seen += chunk.decode()
        return self.child.wait(DEADLINE_SECONDS)


def _take_terminal() -> None:
    """Make standard input the child's own terminal, so that typing ^C sends SIGINT."""
    os.setsid()
    os.close(os.open(os.ttyname(0), os.O_RDWR))


@contextmanager
def _terminal(machine: Machine, *arguments: str, **env: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*SCAFFOLDER, *arguments],
        cwd=machine.work,
        env=machine.env | {"TERM": "xterm"} | env,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - this process has no threads
    )
    os.close(slave)
    try:
        yield Terminal(master, child)
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
        os.close(master)


def test_on_a_terminal_every_open_question_is_asked(machine: Machine) -> None:
    """With its default; an answer that is none is asked for again."""
    with _terminal(machine, "new", "my-app", "--no-install") as terminal:
        terminal.expect("(sqlite, postgresql) [sqlite]: ")
        terminal.type("mysql\n")
        terminal.expect("`mysql` is none of sqlite, postgresql")
        terminal.expect("[sqlite]: ")
        terminal.type("postgresql\n")
        terminal.expect("orders: Example feature")
        terminal.expect("[Y/n]: ")
        terminal.type("perhaps\n")
        terminal.expect("`perhaps` is neither yes nor no")
        terminal.expect("[Y/n]: ")
        terminal.type("n\n")
        for name in ("admin", "inbox", "docker", "ci"):
            terminal.expect(f"{name}: ")
            terminal.expect("[Y/n]: ")
            terminal.type("\n")
        terminal.expect("--database postgresql --preset full --without orders --yes --no-install")
        assert terminal.end() == 0
    answers = yaml.safe_load((machine.work / "my-app" / ".copier-answers.yml").read_text())
    assert answers["database"] == "postgresql"
    assert answers["orders"] is False
    assert answers["admin"] is True


def test_what_a_flag_answers_is_not_asked(machine: Machine) -> None:
    """Only the database is open here."""
    arguments = ("new", "my-app", "--preset", "minimal", "--no-install", "--no-git")
    with _terminal(machine, *arguments) as terminal:
        terminal.expect("[sqlite]: ")
        terminal.type("\n")
        terminal.expect("--preset minimal")
        assert terminal.end() == 0


def test_yes_asks_nothing_on_a_terminal(machine: Machine) -> None:
    """The defaults are taken."""
    with _terminal(machine, "new", "my-app", "--yes", "--no-install", "--no-git") as terminal:
        assert terminal.end() == 0
        assert "[Y/n]" not in terminal.seen


@pytest.mark.parametrize(("key", "code"), [("\x03", 1), ("\x04", 1)])
def test_leaving_at_a_question_leaves_nothing(machine: Machine, key: str, code: int) -> None:
    """Ctrl-C and Ctrl-D are answers too."""
    with _terminal(machine, "new", "my-app") as terminal:
        terminal.expect("[sqlite]: ")
        terminal.type(key)
        terminal.expect("error:")
        terminal.expect("hint:")
        assert terminal.end() == code
    assert machine.left_behind() == []


def test_colours_follow_the_terminal_and_no_color(machine: Machine) -> None:
    """Colour is for people, and only for those who want it."""
    (machine.work / "my-app").write_text("in the way")
    with _terminal(machine, "new", "my-app", "--yes") as terminal:
        assert terminal.end() == 2
        assert "\x1b[31m" in terminal.seen
    with _terminal(machine, "new", "my-app", "--yes", NO_COLOR="1") as terminal:
        assert terminal.end() == 2
        assert "\x1b[3" not in terminal.seen


def test_checks_come_before_questions(machine: Machine) -> None:
    """Nobody answers six questions to learn that the folder is taken."""
    (machine.work / "my-app").write_text("in the way")
    with _terminal(machine, "new", "my-app") as terminal:
        assert terminal.end() == 2
        assert "[sqlite]" not in terminal.seen


def test_every_question_has_a_flag_and_help_names_every_answer(machine: Machine) -> None:
    """copier.yml is the one list; the flags follow it."""
    questions = read_questions((ROOT / "copier.yml").read_text())
    text = " ".join(machine.run("new", "--help").out.split())
    assert {question.name for question in questions.items} - {
        question.name for question in questions.features
    } == {"project_name", "database"}
    assert "|".join(questions["database"].choices) in text
    assert "--with" in text
    assert "--without" in text
    names = [question.name for question in questions.features]
    assert f"Switch on: {', '.join(names[:-1])} or {names[-1]}." in text
