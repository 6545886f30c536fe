"""Dry run, branch, diff, status, versions: what is printed, and that nothing else happens."""

import json
import shutil
from pathlib import Path

import pytest

from tests.upgrade.conftest import Project, Tool, make_tool
from tests.upgrade.templates import FIRST, SECOND, lines

SWITCHES = b'''"""Switches."""

PARK_ON_451 = False
"""2.0.0: 451 parks at once
instead of being retried."""

TAKEN: bool = True
"""1.0.0: something."""

TEXT = "no switch"
'''


def _state(project: Project) -> tuple[object, ...]:
    refs = project.git("for-each-ref")
    return project.snapshot(), project.read(".git/index"), project.read(".git/HEAD"), refs


def _inside_git(project: Project) -> set[str]:
    return {str(path) for path in project.path(".git").rglob("*")}


def test_a_dry_run_says_all_and_touches_nothing(project: Project) -> None:
    """Not even the object store; the real run then does what was said."""
    project.replace("app/lines.py", "line 10 of the template", "line 10 of the owner")
    project.path("app/other.py").unlink()
    project.commit()
    before, inside = _state(project), _inside_git(project)
    dry = project.upgrade("--dry-run")
    assert dry.code == 1, dry.err
    assert (_state(project), _inside_git(project)) == (before, inside)
    assert "nothing was touched" in dry.err
    real = project.upgrade()
    assert real.verdicts == dry.verdicts
    assert {
        "conflict": "app/lines.py",
        "kept deleted": "app/other.py",
        "renamed": "app/new_name.py",
        "removed": "app/leaving.py",
        "added": "app/added.py",
    }.items() <= {verdict: path for path, verdict in real.verdicts.items()}.items() | {
        (verdict, path) for path, verdict in real.verdicts.items()
    }


def test_a_dry_run_also_names_what_is_in_the_way(project: Project) -> None:
    """It is refused for the reason for which the run would be."""
    project.write("app/added.py", b"mine\n")
    project.upgrade("--dry-run").refused("app/added.py")


def test_the_report_as_json(project: Project) -> None:
    """One object with every verdict, the news of each release and the undo."""
    run = project.upgrade("--json")
    report = json.loads(run.out)
    assert (report["from"], report["to"]) == ("1.0.0", "2.0.0")
    assert {"path": "app/added.py", "verdict": "added", "detail": ""} in report["files"]
    assert report["releases"] == [
        {"version": "2.0.0", "changes": ["- `app/lines.py` says more", "- one migration"]}
    ]
    assert report["undo"] == "git reset --merge"
    assert report["conflicts"] == []


def test_the_changelog_of_every_release_passed_is_shown(project: Project) -> None:
    """Only the part that is written for projects, oldest first."""
    run = project.upgrade()
    assert "Template 2.0.0:\n  - `app/lines.py` says more\n  - one migration\n" in run.err
    assert "Something to come" not in run.err
    assert "- First" not in run.err


def test_a_branch_gets_one_commit_and_the_work_tree_stays(project: Project) -> None:
    """Even with staged and unstaged edits: none of them takes part."""
    project.replace("app/lines.py", "line 1 of the template", "line 1 of the owner")
    project.replace("app/still.py", "still 1 of the template", "still 1 of the owner")
    project.git("add", "app/still.py")
    before, index = project.snapshot(), project.git("ls-files", "--stage")
    run = project.upgrade("--branch", "template-2")
    assert run.code == 0, run.err
    assert (project.snapshot(), project.git("ls-files", "--stage")) == (before, index)
    assert project.git("rev-parse", "template-2~1") == project.git("rev-parse", "HEAD")
    assert project.git("show", "template-2:app/added.py").encode() == lines(name="added")
    message = project.git("log", "-1", "--format=%B", "template-2")
    assert message.startswith("Upgrade the template from 1.0.0 to 2.0.0\n\nTemplate 2.0.0:\n")
    assert "added        app/added.py" in message
    assert "git merge template-2" in run.err


def test_a_branch_is_not_made_with_conflicts(project: Project) -> None:
    """A program would commit the markers; exit 1 and the command for a person instead."""
    project.replace("app/lines.py", "line 10 of the template", "line 10 of the owner")
    project.commit()
    before = _state(project)
    run = project.upgrade("--branch", "template-2")
    assert run.code == 1, run.err
    assert _state(project) == before
    assert "git switch -c template-2 && scaffolder upgrade" in run.err


@pytest.mark.parametrize(
    ("name", "naming"), [("main", "there is a branch `main`"), ("a..b", "`a..b` is no name")]
)
def test_a_branch_that_cannot_be_made_is_refused(project: Project, name: str, naming: str) -> None:
    """Before anything is rendered."""
    project.upgrade("--branch", name).refused(naming)


def test_a_branch_in_a_sub_folder_holds_the_whole_repository(
    tool: Tool, pristine: Path, tmp_path: Path
) -> None:
    """The commit is one of the repository, not of the folder."""
    top = Project(tmp_path / "mono", tool)
    shutil.copytree(pristine, top.path("shop"), ignore=shutil.ignore_patterns(".git"))
    top.write("readme.txt", b"mine\n")
    top.git("init", "-q")
    top.commit()
    run = top.upgrade("--branch", "template-2", cwd=top.path("shop"))
    assert run.code == 0, run.err
    names = top.git("ls-tree", "-r", "--name-only", "template-2").split("\n")
    assert {"readme.txt", "shop/app/added.py"} <= set(names)
    assert "app/added.py" not in names


def test_diff_prints_the_patch_that_upgrade_applies(project: Project) -> None:
    """git applies it to the same tree; binary files and renames are in it."""
    project.replace("app/lines.py", "line 2 of the template", "line 2 of the owner")
    project.commit()
    before, inside = _state(project), _inside_git(project)
    run = project.tool.run("diff", cwd=project.root)
    assert run.code == 0, run.err
    assert (_state(project), _inside_git(project)) == (before, inside)
    assert "rename from app/old_name.py" in run.out
    patch = project.root.parent / "upgrade.patch"
    patch.write_text(run.out)
    assert project.upgrade().code == 0
    upgraded = project.git("write-tree")
    project.git("reset", "-q", "--merge")
    project.git("apply", "--index", str(patch))
    assert project.git("write-tree") == upgraded


def test_diff_of_a_project_that_is_up_to_date_is_empty(project: Project) -> None:
    """Nothing on stdout, a sentence on stderr."""
    run = project.tool.run("diff", "--to", "1.0.0", cwd=project.root)
    assert (run.code, run.out) == (0, "")
    assert "up to date" in run.err


def test_status_tells_versions_answers_edits_and_switches(project: Project) -> None:
    """Without git's help: an edit counts whether committed or not."""
    project.replace("app/lines.py", "line 2 of the template", "line 2 of the owner")
    project.commit()
    project.path("run.sh").chmod(0o644)
    project.path("app/other.py").unlink()
    project.write("app/switches.py", SWITCHES)
    run = project.tool.run("status", "--json", cwd=project.path("app"))
    assert run.code == 0, run.err
    assert json.loads(run.out) == {
        "path": str(project.root),
        "template_version": "1.0.0",
        "newest_version": "2.0.0",
        "upgrade_available": True,
        "interrupted": False,
        "answers": {"project_name": "shop", "database": "sqlite", "extra": False},
        "edited": ["app/lines.py", "run.sh"],
        "deleted": ["app/other.py"],
        "unknown": None,
        "switches": [
            {
                "name": "PARK_ON_451",
                "taken": False,
                "text": "2.0.0: 451 parks at once instead of being retried.",
            },
            {"name": "TAKEN", "taken": True, "text": "1.0.0: something."},
        ],
    }
    shown = project.tool.run("status", cwd=project.root)
    assert "switch    PARK_ON_451: 2.0.0: 451 parks at once" in shown.out
    assert "TAKEN" not in shown.out
    assert "edited    app/lines.py" in shown.out


def test_status_has_an_exit_code_for_scripts(project: Project) -> None:
    """1 when a newer template is here, 0 otherwise, and only if asked."""
    status = project.tool.run("status", "--exit-code", cwd=project.root)
    assert status.code == 1
    assert project.tool.run("status", cwd=project.root).code == 0
    assert project.upgrade().code == 0
    assert project.tool.run("status", "--exit-code", cwd=project.root).code == 0


def test_a_fresh_project_has_no_edits(project: Project) -> None:
    """What the tool itself writes, `.env` and the answers file, is none."""
    report = json.loads(project.tool.run("status", "--json", cwd=project.root).out)
    assert (report["edited"], report["deleted"]) == ([], [])


def test_status_needs_a_project(tmp_path: Path, tool: Tool) -> None:
    """The folder is named, and what a project would have."""
    tool.run("status", cwd=tmp_path).refused(str(tmp_path), ".copier-answers.yml")


def test_an_upgraded_project_is_up_to_date(project: Project) -> None:
    """A second run has nothing to do, and says so."""
    assert project.upgrade().code == 0
    project.commit()
    run = project.upgrade()
    assert (run.code, run.out) == (0, "")
    assert "up to date: the project has template 2.0.0" in run.err


def test_versions_that_cannot_be_are_refused(project: Project) -> None:
    """Unknown, older, and a project that is newer than the tool."""
    project.upgrade("--to", "9.9.9").refused("no template 9.9.9", "1.0.0, 2.0.0")
    assert project.upgrade().code == 0
    project.commit()
    project.upgrade("--to", "1.0.0").refused("1.0.0 is older than the project's 2.0.0")
    project.replace(".copier-answers.yml", "_commit: 2.0.0", "_commit: 3.0.0")
    project.commit()
    run = project.upgrade()
    run.refused("has template 3.0.0, and this tool has only 2.0.0")
    assert "@3.0.0 scaffolder upgrade" in run.err


@pytest.mark.parametrize("stored", ["1.0.0.dev3", "1.0.0-4-gabcdef0", "abcdef0"])
def test_a_project_of_no_release_is_refused_with_the_reason(project: Project, stored: str) -> None:
    """Nobody knows any more what a development version held."""
    project.replace(".copier-answers.yml", "_commit: 1.0.0", f"_commit: {stored}")
    project.commit()
    project.upgrade().refused(stored)
    status = json.loads(project.tool.run("status", "--json", cwd=project.root).out)
    assert status["edited"] is None
    assert stored in status["unknown"]


def test_a_release_can_be_upgraded_to_a_development_version(tmp_path: Path) -> None:
    """But not on from there, which is said in time."""
    tool = make_tool(tmp_path / "tool", {"1.0.0": FIRST, "2.0.0.dev0": SECOND})
    made = tool.run(
        "new", "shop", "--yes", "--no-install", "--template-version", "1.0.0", cwd=tmp_path
    )
    assert made.code == 0, made.err
    project = Project(tmp_path / "shop", tool)
    run = project.upgrade()
    assert run.code == 0, run.err
    assert b"_commit: 2.0.0.dev0\n" in project.read(".copier-answers.yml")
    assert "Template 2.0.0.dev0:" in run.err
    assert "a development version: a project that has it can't be upgraded later" in run.err
    assert "--to 1.0.0 is the newest that can" in run.err
    project.commit()
    project.upgrade().refused("2.0.0.dev0, a development version")


def test_a_version_tag_of_plain_copier_is_the_same_version(project: Project) -> None:
    """`v1.0.0` and another home: the answers file stays without a conflict."""
    project.replace(".copier-answers.yml", "_commit: 1.0.0", "_commit: v1.0.0")
    text = project.read(".copier-answers.yml").decode()
    home = next(row for row in text.splitlines() if row.startswith("_src_path"))
    project.replace(".copier-answers.yml", home, "_src_path: https://git.example.com/mine.git")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    text = project.read(".copier-answers.yml").decode()
    assert "_commit: 2.0.0\n" in text
    assert "_src_path: https://git.example.com/mine.git\n" in text


def test_no_git_and_an_old_git_are_refused(project: Project, tmp_path: Path) -> None:
    """With the version that it takes."""
    import subprocess
    import sys

    old = tmp_path / "bin"
    old.mkdir()
    command = [sys.executable, "-m", "scaffolder", "upgrade"]

    def run() -> str:
        env = project.tool.env | {"PATH": str(old)}
        done = subprocess.run(
            command, cwd=project.root, env=env, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    assert "`git` is not on PATH" in run()
    (old / "git").write_text("#!/bin/sh\necho git version 2.37.9\n")
    (old / "git").chmod(0o755)
    message = run()
    assert "git version 2.37.9" in message
    assert "2.38" in message


def test_two_upgrades_at_once_are_refused(project: Project) -> None:
    """The second names the first."""
    import fcntl

    with project.path(".git/scaffolder.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        project.upgrade().refused("another `scaffolder upgrade` is running")
