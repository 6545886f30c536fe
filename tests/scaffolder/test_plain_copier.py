"""The repository is an ordinary copier template: no trust, no tasks, the same project."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .conftest import Machine
from .trees import project_files


@pytest.fixture
def tagged(machine: Machine, tmp_path: Path) -> Path:
    """Give a git repository of the work tree with one release tag, and the tool in it."""
    folder = tmp_path / "template-repository"
    shutil.copytree(machine.tool, folder, ignore=shutil.ignore_patterns("__pycache__"))
    machine.git(folder, "init", "--quiet")
    machine.git(folder, "add", "--all", "--force")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    machine.git(folder, *identity, "commit", "--quiet", "--message", "template")
    machine.git(folder, "tag", "0.0.1")
    return folder


def _copy(machine: Machine, source: Path, name: str, *data: str) -> Path:
    flags = [part for pair in data for part in ("--data", pair)]
    subprocess.run(
        [sys.executable, "-m", "copier", "copy", "--defaults", "--quiet", *flags, source, name],
        cwd=machine.work,
        env=machine.env,
        check=True,
        capture_output=True,
        text=True,
    )
    return machine.work / name


def _generate(machine: Machine, source: Path, *flags: str) -> Path:
    made = machine.run(
        *("new", "my-app", "--yes", "--no-install", *flags), env={"PYTHONPATH": str(source)}
    )
    assert made.code == 0, made.err
    return machine.work / "my-app"


@pytest.mark.parametrize(
    ("data", "flags"),
    [
        ((), ()),
        (
            ("database=postgresql", "orders=false", "ci=false"),
            ("--database", "postgresql", "--without", "orders", "--without", "ci"),
        ),
    ],
)
def test_copier_alone_makes_the_same_project(
    machine: Machine, tagged: Path, data: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    """But for `.env`, which needs a secret, and the two lines that name the template."""
    plain = _copy(machine, tagged, "plain", "project_name=my-app", *data)
    ours = project_files(_generate(machine, tagged, *flags))
    theirs = project_files(plain)
    answers = [
        yaml.safe_load(files.pop(".copier-answers.yml").decode()) for files in (theirs, ours)
    ]
    assert theirs == ours
    assert answers[0]["_commit"] == "0.0.1"
    assert {k: v for k, v in answers[0].items() if k[0] != "_"} == {
        k: v for k, v in answers[1].items() if k[0] != "_"
    }


def test_the_answers_file_has_copier_s_own_form(machine: Machine, tagged: Path) -> None:
    """Otherwise the first `copier update` would show lines that nobody changed."""
    plain = (_copy(machine, tagged, "my-app") / ".copier-answers.yml").read_text()
    shutil.rmtree(machine.work / "my-app")
    ours = (_generate(machine, tagged) / ".copier-answers.yml").read_text()

    def same(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("_")]

    assert same(ours) == same(plain)
    assert len(ours.splitlines()) == len(plain.splitlines())


@pytest.mark.parametrize("name", ["My App!", "class", "CON", "x" * 65, "../x"])
def test_copier_refuses_the_names_that_we_refuse(machine: Machine, tagged: Path, name: str) -> None:
    """The validator in copier.yml and naming.py know the same rules."""
    data = ("--data", f"project_name={name}")
    done = subprocess.run(
        [sys.executable, "-m", "copier", "copy", "--defaults", *data, str(tagged), "out"],
        cwd=machine.work,
        env=machine.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Validation error" in done.stderr
    assert machine.left_behind() == []
