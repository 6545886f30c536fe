"""Tier 2: every pair of answers once; each project is whole, clean and has no trace of the rest.

All on and all off with both databases, and each feature off by itself: every pair of answers
occurs. Nothing is installed here; that is the next tier.
"""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scaffolder.answers import Answers
from scaffolder.naming import normalised
from scaffolder.packing import read_tree
from scaffolder.questions import read_questions
from scaffolder.source import open_snapshot
from tools.file_list import read_stored, render
from tools.pin import requirements

from .conftest import ROOT

QUESTIONS = read_questions((ROOT / "copier.yml").read_text("utf-8"))
FEATURES = frozenset(question.name for question in QUESTIONS.features)
SETS = [
    Answers("full-sqlite", "sqlite", FEATURES),
    Answers("full-postgresql", "postgresql", FEATURES),
    Answers("minimal-sqlite", "sqlite", frozenset()),
    Answers("minimal-postgresql", "postgresql", frozenset()),
    *(Answers(f"without-{name}", "sqlite", FEATURES - {name}) for name in sorted(FEATURES)),
]
EXCLUDED = re.compile(r"""^\s*- "\{% if not (\w+) %\}/(.+?)\{% endif %\}"$""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Project:
    """A rendered project and the answers it came from."""

    answers: Answers
    path: Path

    def texts(self) -> Iterator[tuple[str, str]]:
        """Give path and text of every file that is text."""
        for path in sorted(self.path.rglob("*")):
            if path.is_file():
                try:
                    yield path.relative_to(self.path).as_posix(), path.read_bytes().decode()
                except UnicodeDecodeError:
                    continue

    @property
    def packages_off(self) -> set[str]:
        """Return the packages below `app` that this project must not have."""
        return {
            path.removeprefix("app/")
            for feature, path in EXCLUDED.findall((ROOT / "copier.yml").read_text("utf-8"))
            if feature not in self.answers.features and path.count("/") == 1
            if path.startswith("app/")
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder in which all projects of this module are rendered."""
    return tmp_path_factory.mktemp("answer-sets")


@pytest.fixture(scope="module", params=SETS, ids=lambda answers: answers.project_name)
def project(request: pytest.FixtureRequest, folder: Path) -> Project:
    """Give one rendered project after the other."""
    answers: Answers = request.param
    return Project(answers, render(open_snapshot(), QUESTIONS, answers, folder))


def test_it_has_exactly_the_files_of_its_answers(project: Project) -> None:
    """Compare with the stored list; `python -m tools.file_list` rewrites it."""
    wanted = {
        path
        for path, feature in read_stored().items()
        if not feature or feature in project.answers.features
    }
    assert {path for path, _ in project.texts()} == wanted


def test_every_python_file_parses(project: Project) -> None:
    """Without a warning, on the oldest Python that is supported."""
    for path, text in project.texts():
        if path.endswith(".py"):
            ast.parse(text, path, feature_version=(3, 11))


def test_no_template_language_is_left(project: Project) -> None:
    """Files that were rendered hold no marks; `${{ }}` belongs to the workflow's own language."""
    rendered = {
        file.path.removeprefix("template/").removesuffix(".jinja")
        for file in read_tree(ROOT)
        if file.path.endswith(".jinja")
    }
    for path, text in project.texts():
        if path in rendered:
            assert not re.search(r"(?<!\$)\{\{|\{%|\{#|_copier", text), path


def test_every_file_ends_with_one_newline(project: Project) -> None:
    """And none ends with an empty line or has blanks at a line's end."""
    for path, text in project.texts():
        if text:
            assert text.endswith("\n"), path
            assert not text.endswith("\n\n"), path
            assert not re.search(r"[ \t]+$", text, re.MULTILINE) or path.endswith(".md"), path
            assert "\r" not in text, path


def test_the_linter_and_the_formatter_have_nothing_to_say(project: Project) -> None:
    """With the project's own configuration, as its owner will run them."""
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "."],
            cwd=project.path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_import_contracts_hold(project: Project) -> None:
    """Also where an optional layer is absent."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=project.path,
        env={**os.environ, "PYTHONPATH": str(project.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_packages_that_are_off_cannot_be_imported(project: Project) -> None:
    """Not even as an empty namespace package, which an empty folder would be."""
    for package in sorted(project.packages_off):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import importlib.util as u; print(u.find_spec('app.{package}'))",
            ],
            cwd=project.path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == "None"


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nothing_imports_what_is_off(project: Project) -> None:
    """A feature is found at run time; no module names another feature's in an import."""
    off = {f"app.{package}" for package in project.packages_off}
    for path, text in project.texts():
        if path.endswith(".py"):
            for name in _imports(ast.parse(text, path)):
                assert not any(name == gone or name.startswith(f"{gone}.") for gone in off), (
                    f"{path} imports {name}"
                )


def test_the_project_file_bears_the_name(project: Project) -> None:
    """Distribution and command are called as the project is; the package is always `app`."""
    loaded = tomllib.loads((project.path / "pyproject.toml").read_text("utf-8"))["project"]
    assert loaded["name"] == project.answers.project_name
    assert loaded["scripts"] == {project.answers.project_name: "app.cli:run"}


def test_every_excluded_path_exists_in_the_template() -> None:
    """A block in copier.yml that names nothing would switch nothing off."""
    files = {file.path for file in read_tree(ROOT)}
    known = files | {parent.as_posix() for file in files for parent in Path(file).parents}
    listed = EXCLUDED.findall((ROOT / "copier.yml").read_text("utf-8"))
    assert {feature for feature, _ in listed} == FEATURES
    assert len(set(listed)) == len(listed)
    for _, path in listed:
        assert not path.endswith("/")
        assert {f"template/{path}", f"template/{path}.jinja"} & known, path


def test_the_template_s_project_file_is_toml_as_it_stands() -> None:
    """The repository reads the dependency lists in place."""
    text = (ROOT / "template" / "pyproject.toml.jinja").read_text("utf-8")
    assert tomllib.loads(text)["project"]["dependencies"]


def test_every_dependency_is_pinned_within_its_range() -> None:
    """`python -m tools.pin` refreshes the pins; a range without one would drift."""
    pins = dict(
        line.split("==")
        for line in (ROOT / "template" / "constraints.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
    for line in requirements():
        requirement = Requirement(line)
        assert pins[normalised(requirement.name)] in requirement.specifier, line
