"""What `scaffolder new` makes, says and records."""

import json
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scaffolder import __version__
from scaffolder.source import CANONICAL_URL

from .conftest import ROOT, SCAFFOLDER, Machine
from .trees import project_files

PIP = ".venv/bin/python -m pip install --editable '.[dev]' --constraint constraints.txt"
FEATURES = ("orders", "admin", "inbox", "docker", "ci")


def test_a_new_project_is_one_clean_commit(machine: Machine) -> None:
    """Everything that is not ignored is in it, on branch main."""
    project = machine.generate("my-app")
    assert machine.git(project, "rev-list", "--count", "HEAD").strip() == "1"
    assert machine.git(project, "branch", "--show-current").strip() == "main"
    assert machine.git(project, "status", "--porcelain") == ""
    tracked = set(machine.git(project, "ls-files").split())
    assert tracked == set(project_files(project))


def test_the_answers_file_names_the_home_and_version_of_the_template(machine: Machine) -> None:
    """Not the unpacked folder, which is gone the next moment."""
    answers = yaml.safe_load((machine.generate("my-app") / ".copier-answers.yml").read_text())
    assert answers == {
        "_commit": __version__,
        "_src_path": CANONICAL_URL,
        "project_name": "my-app",
        "database": "sqlite",
        **dict.fromkeys(FEATURES, True),
    }


def test_the_secret_is_fresh_private_and_in_no_commit(machine: Machine) -> None:
    """Two projects never share a key, and git never sees one."""
    secrets = []
    for name in ("one", "two"):
        project = machine.generate(name)
        env = project / ".env"
        assert stat.S_IMODE(env.stat().st_mode) == 0o600
        found = re.search(r"^APP_SECRET_KEY=(\S+)$", env.read_text(), re.MULTILINE)
        assert found is not None
        assert len(found[1]) >= 43
        assert found[1] not in machine.git(project, "log", "--all", "-p")
        assert "APP_SECRET_KEY=change-me" in (project / ".env.example").read_text()
        secrets.append(found[1])
    assert secrets[0] != secrets[1]


def test_the_secret_stays_out_of_git_whatever_the_user_ignores(machine: Machine) -> None:
    """A user's own ignore file neither adds nor removes anything from the first commit."""
    (machine.home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/ignore\n")
    (machine.home / "ignore").write_text("*.toml\n!.env\n")
    tracked = machine.git(machine.generate("my-app"), "ls-files").split()
    assert "pyproject.toml" in tracked
    assert ".env" not in tracked


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_database_is_the_url_in_env(machine: Machine, database: str) -> None:
    """`--database` sets the URL; both drivers are dependencies anyway."""
    project = machine.generate("my-app", "--database", database)
    scheme = {"sqlite": "sqlite+aiosqlite:", "postgresql": "postgresql+asyncpg:"}[database]
    for file in (".env", ".env.example"):
        assert f"\nAPP_DATABASE_URL={scheme}//" in (project / file).read_text()
    pyproject = (project / "pyproject.toml").read_text()
    assert '"aiosqlite' in pyproject
    assert '"asyncpg' in pyproject


def test_the_minimal_preset_has_no_feature_and_with_adds_one(machine: Machine) -> None:
    """A preset is where one starts from."""
    project = machine.generate("my-app", "--preset", "minimal", "--with", "admin")
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert {name for name in FEATURES if answers[name]} == {"admin"}
    assert (project / "app" / "admin").is_dir()
    assert not (project / "app" / "orders").exists()


def test_flags_win_over_the_data_file(machine: Machine, tmp_path: Path) -> None:
    """And the data file wins over preset and defaults."""
    file = tmp_path / "answers.yml"
    file.write_text("_commit: 0.0.1\ndatabase: postgresql\nadmin: false\ninbox: true\n")
    flags = ("--data-file", str(file), "--preset", "minimal", "--with", "admin")
    project = machine.generate("my-app", *flags)
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert answers["database"] == "postgresql"
    assert {name for name in FEATURES if answers[name]} == {"admin", "inbox"}


def test_another_project_s_answers_file_is_a_data_file(machine: Machine) -> None:
    """The quickest way to a project like that one."""
    first = machine.generate("first", "--database", "postgresql", "--without", "ci")
    second = machine.generate("second", "--data-file", str(first / ".copier-answers.yml"))
    answers = yaml.safe_load((second / ".copier-answers.yml").read_text())
    assert answers["project_name"] == "second"
    assert answers["database"] == "postgresql"
    assert answers["ci"] is False


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--database", "postgresql", "--without", "admin"),
        ("--preset", "minimal", "--with", "inbox", "--no-git"),
    ],
)
def test_the_printed_command_makes_the_same_project(
    machine: Machine, flags: tuple[str, ...]
) -> None:
    """Every run prints the command that needs no question."""
    made = machine.run("new", "my-app", "--yes", "--no-install", *flags)
    found = re.search(r"^The same without questions: scaffolder (.+)$", made.err, re.MULTILINE)
    assert found is not None
    before = project_files(machine.work / "my-app")
    had_git = (machine.work / "my-app" / ".git").exists()
    shutil.rmtree(machine.work / "my-app")
    assert machine.run(*shlex.split(found[1])).code == 0
    assert project_files(machine.work / "my-app") == before
    assert (machine.work / "my-app" / ".git").exists() == had_git


def test_three_next_commands_are_printed(machine: Machine) -> None:
    """They stand at the end, in the order in which they are typed."""
    made = machine.run("new", "my-app", "--yes", "--no-install")
    lines = made.err.splitlines()
    steps = [line.strip().partition("  # ") for line in lines[lines.index("Next:") + 1 :]]
    assert [command for command, _, _ in steps] == [
        "cd my-app",
        f"python3 -m venv .venv && {PIP}",
        ".venv/bin/my-app dev",
    ]
    assert made.out == ""


def test_the_next_commands_say_that_dev_goes_on(machine: Machine) -> None:
    """Whoever types the lines one after the other learns where the one after `dev` belongs."""
    made = machine.run("new", "my-app", "--yes", "--no-install")
    (dev,) = [line for line in made.err.splitlines() if ".venv/bin/my-app dev" in line]
    command, _, remark = dev.strip().partition("  # ")
    assert command == ".venv/bin/my-app dev"
    assert "until Ctrl-C" in remark
    assert f"second terminal, in {machine.work / 'my-app'}" in remark


def test_the_current_folder_is_filled(machine: Machine) -> None:
    """`.` takes the folder's name and keeps the folder."""
    folder = machine.work / "shop"
    folder.mkdir()
    inode = folder.stat().st_ino
    made = machine.run("new", ".", "--yes", "--no-install", cwd=folder)
    assert made.code == 0, made.err
    assert folder.stat().st_ino == inode
    assert 'name = "shop"' in (folder / "pyproject.toml").read_text()
    assert list(folder.glob(".scaffolder-*")) == []
    machine.generate("other")
    assert {*project_files(folder)} == {*project_files(machine.work / "other")}
    assert "cd " not in made.err.partition("Next:")[2]


def test_an_empty_folder_of_that_name_is_filled(machine: Machine) -> None:
    """Whoever made the folder first keeps it, with its mode."""
    (machine.work / "my-app").mkdir(mode=0o700)
    project = machine.generate("my-app")
    assert stat.S_IMODE(project.stat().st_mode) == 0o700
    assert machine.git(project, "status", "--porcelain") == ""
    assert list(project.glob(".scaffolder-*")) == []


def test_a_private_umask_gives_a_project_that_others_can_read(machine: Machine) -> None:
    """Modes come from the template: 644 and 755, and 600 for what is secret."""
    done = subprocess.run(
        [*SCAFFOLDER, "new", "my-app", "--yes", "--no-install", "--no-git"],
        cwd=machine.work,
        env=machine.env,
        umask=0o077,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b""
    modes = {
        stat.S_IMODE(path.stat().st_mode)
        for path in (machine.work / "my-app").rglob("*")
        if path.is_file() and path.name not in (".env", ".copier-answers.yml")
    }
    assert modes <= {0o644, 0o755}


def test_a_fresh_repository_is_filled_and_left_to_its_owner(machine: Machine) -> None:
    """A clone of an empty repository counts as empty; the commit is its owner's."""
    folder = machine.work / "shop"
    folder.mkdir()
    machine.git(folder, "init", "--quiet")
    made = machine.run("new", ".", "--yes", "--no-install", cwd=folder)
    assert made.code == 0, made.err
    assert "no git repository made: this is inside an existing work tree" in made.err
    assert "?? pyproject.toml" in machine.git(folder, "status", "--porcelain")


def test_inside_a_work_tree_no_repository_is_nested(machine: Machine) -> None:
    """It is said, and no git is needed for it."""
    machine.git(machine.work, "init", "--quiet")
    made = machine.run("new", "my-app", "--yes", "--no-install")
    assert made.code == 0, made.err
    assert "no git repository made: this is inside an existing work tree" in made.err
    assert not (machine.work / "my-app" / ".git").exists()


def test_git_s_own_variables_do_not_lead_astray(machine: Machine, tmp_path: Path) -> None:
    """Called from a hook, git's variables name the outer repository."""
    outer = tmp_path / "outer"
    outer.mkdir()
    machine.git(outer, "init", "--quiet")
    leaking = {"GIT_DIR": str(outer / ".git"), "GIT_INDEX_FILE": str(outer / ".git" / "index")}
    made = machine.run("new", "my-app", "--yes", "--no-install", env=leaking)
    assert made.code == 0, made.err
    assert machine.git(machine.work / "my-app", "rev-list", "--count", "HEAD").strip() == "1"
    assert not (outer / ".git" / "index").exists()


def test_hooks_and_signing_stay_out_of_the_first_commit(machine: Machine) -> None:
    """They are meant for code that somebody wrote."""
    hooks = machine.home / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {machine.home}/ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    (machine.home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {hooks}\n[commit]\n\tgpgSign = true\n"
        "[user]\n\tname = Ada\n\temail = ada@example.com\n"
    )
    project = machine.generate("my-app")
    assert not (machine.home / "ran").exists()
    author = machine.git(project, "log", "-1", "--format=%an <%ae>").strip()
    assert author == "Ada <ada@example.com>"


def test_json_prints_one_object_and_nothing_else(machine: Machine) -> None:
    """For programs: stdout is the report, stderr is for people."""
    made = machine.run("new", "my-app", "--yes", "--no-install", "--json")
    report = json.loads(made.out)
    assert report["project"] == "my-app"
    assert report["path"] == str(machine.work / "my-app")
    assert report["template_version"] == __version__
    assert report["database"] == "sqlite"
    assert report["features"] == sorted(FEATURES)
    assert report["committed"] is True
    assert report["installed"] is False
    assert set(report["files"]) == {*project_files(machine.work / "my-app"), ".env"}
    assert "✓" not in made.out


def test_a_dry_run_lists_what_a_real_run_writes_and_writes_nothing(machine: Machine) -> None:
    """The list is data, so it goes to stdout."""
    dry = machine.run("new", "my-app", "--yes", "--dry-run")
    assert dry.code == 0, dry.err
    assert machine.left_behind() == []
    project = machine.generate("my-app")
    assert dry.out.splitlines() == sorted({*project_files(project), ".env"})


def test_the_version_is_printed(machine: Machine) -> None:
    """One place says which version it is."""
    assert machine.run("--version").out == f"{__version__}\n"


def test_this_version_of_the_template_can_be_named(machine: Machine) -> None:
    """`--template-version` takes any version that the tool carries, its own too."""
    project = machine.generate("my-app", "--template-version", __version__)
    assert f"_commit: {__version__}\n" in (project / ".copier-answers.yml").read_text()


def test_an_installation_that_fails_keeps_the_project_and_says_what_is_left(
    machine: Machine,
) -> None:
    """The project is complete; pip's last words and the commands to run are shown."""
    broken = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}
    made = machine.run("new", "my-app", "--yes", "--json", env=broken)
    assert made.code == 1
    report = json.loads(made.out)
    assert report["installed"] is False
    assert report["failed_commands"] == [PIP]
    assert "✓ virtual environment" in made.err
    assert "Traceback" not in made.err
    assert (machine.work / "my-app" / "pyproject.toml").exists()
    assert machine.git(machine.work / "my-app", "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (("--help",), {"copier", "rich", "yaml", "jinja2", "plumbum", "pydantic"}),
        # Typer itself needs pydantic as soon as a command has a value.
        (("new", "--help"), {"copier", "rich", "yaml", "jinja2", "plumbum"}),
    ],
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...], heavy: set[str]) -> None:
    """`--help` is the first thing that anybody runs."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "scaffolder", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert imported & heavy == set()


def test_ascii_terminals_get_ascii(machine: Machine) -> None:
    """A tick is not worth an encoding error."""
    done = subprocess.run(
        [*SCAFFOLDER, "new", "my-app", "--yes", "--no-install"],
        cwd=machine.work,
        env=machine.env | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stderr.isascii()
    assert b"ok " in done.stderr
