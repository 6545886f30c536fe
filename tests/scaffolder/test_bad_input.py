"""Bad input ends with one sentence, one hint, exit 2 or 1, and an untouched disk."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import SCAFFOLDER, Machine, Run

NEW = ("new", "my-app", "--yes", "--no-install")


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("My App!", "ASCII letters"),
        ("", "ASCII letters"),
        ("a" * 300, "at most 64"),
        ("-x-", "ASCII letters"),
        ("../x", "ASCII letters"),
        ("a/b", "ASCII letters"),
        ("/tmp/x", "ASCII letters"),
        ("..", "ASCII letters"),
        ("größe", "ASCII letters"),
        ("a\nb", "ASCII letters"),
        ("end-", "ASCII letters"),
        ("x" * 65, "at most 64"),
        ("class", "word of the Python language"),
        ("None", "word of the Python language"),
        ("CON", "Windows reserves"),
        ("lpt1", "Windows reserves"),
        ("nul.txt", "Windows reserves"),
        ("python", "command of that name"),
        ("pip3.12", "command of that name"),
        ("Litestar", "depends on a package"),
        ("prometheus_client", "depends on a package"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(machine: Machine, name: str, rule: str) -> None:
    """A name must serve as distribution, command and folder on every platform."""
    run = machine.run("new", "--yes", "--no-install", "--", name)
    run.refused(code=2, naming=rule)
    assert machine.left_behind() == []


def test_the_hint_for_a_bad_name_is_a_command_that_works(machine: Machine) -> None:
    """Whoever copies the hint gets a project."""
    refused = machine.run("new", "My App!", "--yes", "--no-install")
    command = refused.err.splitlines()[1].removeprefix("hint: scaffolder ").split()
    assert machine.run(*command, "--yes", "--no-install", "--no-git").code == 0


@pytest.mark.parametrize(
    ("flags", "naming"),
    [
        (("--with", "webhooks"), "no feature `webhooks`"),
        (("--without", "Admin"), "no feature `Admin`"),
        (("--with", "admin", "--without", "admin"), "`admin` is both"),
        (("--database", "mysql"), "`mysql` is unknown"),
        (("--preset", "medium"), "`medium` is unknown"),
        (("--template-version", "9.9.9"), "`9.9.9` is not part of this tool"),
        (("--data-file", "missing.yml"), "`missing.yml` cannot be read"),
    ],
)
def test_a_bad_flag_is_refused(machine: Machine, flags: tuple[str, ...], naming: str) -> None:
    """The sentence names the value that was given."""
    machine.run(*NEW, *flags).refused(code=2, naming=naming)
    assert machine.left_behind() == []


def test_a_misspelt_feature_is_answered_with_the_nearest(machine: Machine) -> None:
    """A typing error costs one look, not a look into the manual."""
    run = machine.run(*NEW, "--with", "ordres")
    assert "hint: did you mean `orders`?" in run.err


@pytest.mark.parametrize(
    ("text", "naming"),
    [
        ("datbase: sqlite", "`datbase`, which is no question"),
        ("database: oracle", "`oracle` is unknown"),
        ("admin: perhaps", "`admin` is `perhaps`"),
        ("- admin", "is not a list of"),
        ("admin: [", "is not YAML"),
        ("database: [sqlite]", "is unknown"),
        ("\x00", "is not YAML"),
    ],
)
def test_a_bad_data_file_is_refused(
    machine: Machine, tmp_path: Path, text: str, naming: str
) -> None:
    """What is wrong in the file is named, with the file."""
    file = tmp_path / "answers.yml"
    file.write_text(text, encoding="utf-8")
    machine.run(*NEW, "--data-file", str(file)).refused(code=2, naming=naming)
    assert machine.left_behind() == []


def test_a_data_file_that_is_not_text_is_refused(machine: Machine, tmp_path: Path) -> None:
    """Bytes that are no UTF-8 give a sentence, not a traceback."""
    file = tmp_path / "answers.yml"
    file.write_bytes(b"\xff\xfe\x00admin")
    machine.run(*NEW, "--data-file", str(file)).refused(code=2, naming="is not YAML")


def test_a_folder_with_files_is_refused_and_stays_as_it_is(machine: Machine) -> None:
    """A new project never writes over files."""
    (machine.work / "my-app").mkdir()
    (machine.work / "my-app" / "notes.txt").write_text("mine")
    machine.run(*NEW).refused(code=2, naming="is not empty (it holds `notes.txt`)")
    assert machine.left_behind() == ["my-app", "my-app/notes.txt"]
    assert (machine.work / "my-app" / "notes.txt").read_text() == "mine"


def test_the_current_folder_is_refused_when_it_has_files(machine: Machine) -> None:
    """`.` follows the same rule."""
    (machine.work / "notes.txt").write_text("mine")
    machine.run("new", ".", "--yes", "--no-install").refused(code=2, naming="is not empty")
    assert machine.left_behind() == ["notes.txt"]


def test_the_current_folder_is_refused_when_its_name_cannot_be_used(machine: Machine) -> None:
    """`.` takes the folder's name, so the name has to be good."""
    folder = machine.work / "My Folder"
    folder.mkdir()
    run = machine.run("new", ".", "--yes", "--no-install", cwd=folder)
    run.refused(code=2, naming="`My Folder`")
    assert machine.left_behind() == ["My Folder"]


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_something_in_the_way_is_refused(machine: Machine, kind: str) -> None:
    """What is not a folder is never replaced."""
    path = machine.work / "my-app"
    if kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to("nowhere")
    machine.run(*NEW).refused(code=2, naming="is in the way")
    assert machine.left_behind() == ["my-app"]


def test_no_terminal_and_no_yes_is_refused(machine: Machine) -> None:
    """Nobody can be asked, and the flag that helps is named."""
    machine.run("new", "my-app", "--no-install").refused(code=2, naming="--yes")
    assert machine.left_behind() == []


def test_no_terminal_is_fine_when_the_flags_answer_everything(machine: Machine) -> None:
    """--yes is only needed for questions that are open."""
    flags = ("--database", "sqlite", "--preset", "minimal", "--no-install", "--no-git")
    assert machine.run("new", "my-app", *flags).code == 0


def test_no_git_is_refused_with_the_flag_that_does_without(
    machine: Machine, tmp_path: Path
) -> None:
    """A project starts with a first commit unless told otherwise."""
    empty = tmp_path / "empty-path"
    empty.mkdir()
    machine.run(*NEW, env={"PATH": str(empty)}).refused(code=1, naming="`git` is not on PATH")
    assert machine.left_behind() == []
    assert machine.run(*NEW, "--no-git", env={"PATH": str(empty)}).code == 0


def test_a_git_that_fails_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    """The commit is made before the project appears."""
    folder = tmp_path / "path"
    folder.mkdir()
    git = folder / "git"
    git.write_text("#!/bin/sh\necho 'fatal: out of order' >&2\nexit 128\n")
    git.chmod(0o755)
    run = machine.run(*NEW, env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"})
    assert run.code == 1
    assert run.out == ""
    assert "error: git could not make the first commit: fatal: out of order" in run.err
    assert "hint: mend git, or leave it out with --no-git" in run.err
    assert machine.left_behind() == []


# A dry run imports everything; then the process gives up being root. The other way round the
# interpreter's own files may be out of the other user's reach.
AS_NOBODY = """
import contextlib, io, os, sys
from scaffolder.__main__ import main
from scaffolder.cli import app
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    with contextlib.suppress(SystemExit):
        app(["new", "warm-up", "--yes", "--dry-run"])
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
main()
"""


@pytest.fixture
def open_folder(tool: Path) -> Iterator[Path]:
    """Give a folder that every user may enter, with a copy of the tool's source tree."""
    with tempfile.TemporaryDirectory(prefix="scaffolder-test-") as name:
        folder = Path(name)
        if not all(above.stat().st_mode & 0o001 for above in folder.parents):
            pytest.skip(f"the system's temporary folder {folder.parent} is closed to other users")
        shutil.copytree(tool, folder, dirs_exist_ok=True)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("target", ["my-app", "."])
def test_a_parent_that_is_not_writable_is_refused(
    machine: Machine, open_folder: Path, target: str
) -> None:
    """Tried as a user who is not root, since root may write everywhere."""
    locked = open_folder / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    command = [sys.executable, "-c", AS_NOBODY, "new", target, "--yes", "--no-install"]
    env = machine.env | {"PYTHONPATH": str(open_folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=locked, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    run = Run(done.returncode, done.stdout, done.stderr)
    run.refused(code=1, naming=f"`{locked}` is not writable for you")
    assert list(locked.iterdir()) == []


def test_a_folder_that_vanished_is_refused(machine: Machine) -> None:
    """A shell may stand in a folder that somebody else removed."""
    gone = machine.work / "gone"
    gone.mkdir()
    script = f"rmdir {gone} && exec {SCAFFOLDER[0]} -m scaffolder new my-app --yes"
    shell = shutil.which("sh")
    assert shell is not None
    done = subprocess.run(
        [shell, "-c", script],
        cwd=gone,
        env=machine.env,
        capture_output=True,
        text=True,
        check=False,
    )
    Run(done.returncode, done.stdout, done.stderr).refused(code=1, naming="does not exist any more")


@pytest.mark.parametrize(
    ("arguments", "naming", "command"),
    [
        (("new",), "'NAME", "new"),
        (("nwe",), "'nwe'", ""),
        (("new", "my-app", "--databse", "x"), "--databse", "new"),
        (("upgrade", "--to"), "--to", "upgrade"),
    ],
)
def test_a_misspelt_command_line_is_a_usage_error(
    machine: Machine, arguments: tuple[str, ...], naming: str, command: str
) -> None:
    """Exit 2, and the hint is the help of the command that was meant."""
    run = machine.run(*arguments)
    run.refused(code=2, naming=naming)
    words = ["scaffolder", *command.split(), "--help"]
    assert run.err.splitlines()[-1] == f"hint: {' '.join(words)}"
    assert machine.run(*words[1:]).code == 0
    assert machine.left_behind() == []
