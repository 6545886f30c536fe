"""Answers and code of a project carried over: renamed, removed and new questions, hooks."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.upgrade.conftest import Project, Tool, make_tool
from tests.upgrade.templates import COPIER_YML, FIRST, SECOND, lines

RENAMING = '''
def _rename_setting(files: Files) -> None:
    """Owners call `old_call` in their own modules."""
    for path in files.paths():
        data = files.read(path)
        if path.endswith(".py") and data is not None and b"old_call" in data:
            files.write(path, data.replace(b"old_call", b"new_call"))


REGISTRY = Registry(
    answers=(
        renamed("2.0.0", "database", "store"),
        AnswersMigration(
            "2.0.0", "nothing is plain any more", lambda stored: {**stored, "style": "fancy"}
        ),
        AnswersMigration("3.0.0", "never now", lambda stored: {}),
    ),
    hooks=(ProjectHook("2.0.0", "`old_call` is `new_call`", _rename_setting),),
)
'''
RENAMED = (
    SECOND["copier.yml"].replace(b"\ndatabase:\n", b"\nstore:\n")
    + b"kept:\n  type: bool\n  help: New feature\n  default: true\n"
)


@pytest.fixture(scope="module")
def migrating(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """A tool whose second release renames a question and a function."""
    second = SECOND | {
        "copier.yml": RENAMED,
        "template/README.md.jinja": b"# {{ project_name }}\n\nOn {{ store }}.\n",
    }
    tool = make_tool(tmp_path_factory.mktemp("tool"), {"1.0.0": FIRST, "2.0.0": second})
    registry = tool.folder / "scaffolder/upgrade/registry.py"
    text = registry.read_text()
    head, found, _ = text.partition("REGISTRY = Registry(")
    assert found
    registry.write_text(head + RENAMING)
    return tool


def _made(tool: Tool, folder: Path, *flags: str) -> Project:
    made = tool.run(
        "new", "shop", "--yes", "--no-install", "--template-version", "1.0.0", *flags, cwd=folder
    )
    assert made.code == 0, made.err
    return Project(folder / "shop", tool)


def test_the_answer_to_a_renamed_question_is_kept(migrating: Tool, tmp_path: Path) -> None:
    """One line in the registry carries it over; the rendered files do not change."""
    project = _made(migrating, tmp_path, "--database", "postgresql")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "`database` is now called `store`" in run.err
    answers = project.read(".copier-answers.yml")
    assert b"store: postgresql\n" in answers
    assert b"database" not in answers
    assert "README.md" not in run.verdicts
    assert project.read("README.md").endswith(b"On postgresql.\n")


def test_a_migration_runs_only_between_its_versions(migrating: Tool, tmp_path: Path) -> None:
    """That of 2.0.0 runs, that of 3.0.0 does not."""
    project = _made(migrating, tmp_path)
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "nothing is plain any more" in run.err
    assert "never now" not in run.err
    assert b"style: fancy\n" in project.read(".copier-answers.yml")


def test_a_hook_brings_the_owners_code_along(migrating: Tool, tmp_path: Path) -> None:
    """It edits what a merge cannot know of, and a dry run already shows it."""
    project = _made(migrating, tmp_path)
    project.write("app/mine.py", b"old_call()\n")
    project.commit()
    before = project.snapshot()
    dry = project.upgrade("--dry-run")
    assert dry.verdicts["app/mine.py"] == "merged"
    assert project.snapshot() == before
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "`old_call` is `new_call`" in run.err
    assert project.read("app/mine.py") == b"new_call()\n"


def test_a_removed_question_and_a_removed_choice_are_told(tmp_path: Path) -> None:
    """What was answered no longer counts, and nobody finds that out by accident."""
    second = SECOND | {
        "copier.yml": COPIER_YML.replace(b"[sqlite, postgresql]", b"[sqlite, mariadb]")
        .replace(b"extra:\n  type: bool", b"other:\n  type: bool")
        .replace(b"not extra", b"not other")
    }
    tool = make_tool(tmp_path / "tool", {"1.0.0": FIRST, "2.0.0": second})
    project = _made(tool, tmp_path, "--database", "postgresql")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "database `postgresql` is no longer an answer, now `sqlite`" in run.err
    assert "`extra` is no longer asked for" in run.err
    assert "new question other is `false`; change it with --with other" in run.err


def test_a_bad_answer_in_the_file_is_named(project: Project) -> None:
    """Edited by hand; a traceback would not tell which line."""
    project.replace(".copier-answers.yml", "database: sqlite", "database: mysql")
    project.commit()
    project.upgrade().refused("database", "`mysql`")


@pytest.mark.parametrize(
    ("text", "naming"),
    [
        (b"<<<<<<< yours\n_commit: 1.0.0\n", "not readable"),
        (b"database: sqlite\n", "no `_commit`"),
        (b"", "no `_commit`"),
    ],
)
def test_an_answers_file_that_says_nothing_is_refused(
    project: Project, text: bytes, naming: str
) -> None:
    """Conflict markers, or a line that is gone."""
    project.write(".copier-answers.yml", text)
    project.commit()
    project.upgrade().refused(".copier-answers.yml", naming)


def test_a_new_question_is_asked_on_a_terminal(project: Project) -> None:
    """With --yes it is not."""
    shown, code = _typed(project, [], b"fancy\n")
    assert code == 0, shown
    assert b"How it looks (plain, fancy) [plain]:" in shown
    assert b"style: fancy\n" in project.read(".copier-answers.yml")
    project.git("reset", "-q", "--merge")
    shown, code = _typed(project, ["--yes"], b"")
    assert code == 0, shown
    assert b"style: plain\n" in project.read(".copier-answers.yml")


def _typed(project: Project, arguments: list[str], keys: bytes) -> tuple[bytes, int]:
    """Run `upgrade` on a terminal, and type when it asks."""
    main, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "scaffolder", "upgrade", *arguments],
        cwd=project.root, env=project.tool.env | {"TERM": "xterm"},
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    shown, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([main], [], [], 0.1)
        if ready:
            try:
                data = os.read(main, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
            if keys and b"]: " in shown:
                os.write(main, keys)
                keys = b""
    os.close(main)
    return shown, child.wait(timeout=10)


def test_a_feature_is_added_and_removed_later(project: Project) -> None:
    """The same merge between two answers of one version; edits elsewhere stay."""
    project.replace("app/lines.py", "line 2 of the template", "line 2 of the owner")
    project.commit()
    added = project.upgrade("--to", "1.0.0", "--with", "extra")
    assert added.code == 0, added.err
    assert added.verdicts["app/extra/more.py"] == "added"
    assert "app/lines.py" not in added.verdicts
    assert b"extra: true\n" in project.read(".copier-answers.yml")
    project.commit()
    removed = project.upgrade("--to", "1.0.0", "--without", "extra")
    assert removed.code == 0, removed.err
    assert removed.verdicts["app/extra/more.py"] == "removed"
    assert not project.path("app/extra").exists()
    assert b"line 2 of the owner" in project.read("app/lines.py")


def test_a_feature_that_the_owner_edited_is_not_removed_silently(project: Project) -> None:
    """An edited file of it is a conflict, and stays."""
    assert project.upgrade("--to", "1.0.0", "--with", "extra").code == 0
    project.commit()
    project.replace("app/extra/more.py", "more 2 of the template", "more 2 of the owner")
    project.commit()
    run = project.upgrade("--to", "1.0.0", "--without", "extra")
    assert run.code == 1, run.err
    assert run.verdicts["app/extra/more.py"] == "conflict"
    assert project.read("app/extra/more.py") == lines((2, "more 2 of the owner"), name="more")


def test_a_feature_can_come_together_with_a_newer_template(project: Project) -> None:
    """One merge for both."""
    run = project.upgrade("--with", "extra")
    assert run.code == 0, run.err
    assert project.read("app/extra/more.py") == lines((2, "more 2 is new"), name="more")
    assert project.read("app/added.py") == lines(name="added")


def test_a_feature_that_is_there_is_nothing_to_do(project: Project) -> None:
    """Exit 0 and no change."""
    run = project.upgrade("--to", "1.0.0", "--without", "extra")
    assert run.code == 0, run.err
    assert "up to date" in run.err
    assert project.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("flags", "naming"),
    [
        (("--with", "extr"), "no feature `extr`"),
        (("--with", "extra", "--without", "extra"), "both switched on and off"),
    ],
)
def test_a_feature_that_is_none_is_refused(
    project: Project, flags: tuple[str, ...], naming: str
) -> None:
    """The same words as in `new`."""
    project.upgrade(*flags).refused(naming)
