"""`db`: the schema up and down, and what an unusable database is answered with."""

import shutil
from pathlib import Path

import pytest

import app.migrations.versions
from app.db.migrate import head_revision
from app.program import program
from tests.cli.command import ROOT, Project, assert_sentence
from tests.support.postgres import free_port


def test_upgrade_makes_the_tables_and_a_second_one_changes_nothing(fresh: Project):
    """It says what changed; the data folder is private."""
    done = fresh.run("db", "upgrade")
    assert (done.returncode, done.stdout) == (0, "")
    assert f"schema: empty -> {head_revision()}" in done.stderr
    assert "nothing changed" in fresh.run("db", "upgrade").stderr
    assert (fresh.folder / "data").stat().st_mode & 0o777 == 0o700
    assert (fresh.folder / "data" / "app.db").stat().st_mode & 0o777 == 0o600


def test_check_exits_1_until_the_schema_is_the_newest(project: Project):
    """Its JSON names where the schema stands."""
    head = head_revision()
    assert project.json("db", "check") == {"state": "current", "current": head, "head": head}
    done = project.run("db", "downgrade", "base", "--yes")
    assert (done.returncode, done.stderr) == (0, f"schema: {head} -> empty\n")
    done = project.run("db", "check")
    assert done.returncode == 1
    assert done.stderr.endswith(f"{program()} db upgrade\n")


def test_downgrade_asks_and_without_a_terminal_needs_yes(embedded: Project):
    """Exit 2, nothing changed."""
    assert_sentence(embedded.run("db", "downgrade", "base"), 2, "--yes")
    assert embedded.json("db", "check")["state"] == "current"


@pytest.mark.parametrize("direction", ["upgrade", "downgrade"])
def test_an_unknown_revision_is_one_sentence(embedded: Project, direction: str):
    """Exit 2 naming the revision."""
    arguments = ["db", direction, "9999", *(["--yes"] if direction == "downgrade" else [])]
    assert_sentence(embedded.run(*arguments), 2, "9999")


def test_revision_writes_the_next_number(fresh: Project):
    """A copy of the code gets the file; it is a migration that runs."""
    shutil.copytree(ROOT / "app", fresh.folder / "app", ignore=shutil.ignore_patterns("__py*"))
    fresh.variables["PYTHONPATH"] = str(fresh.folder)
    versions = fresh.folder / "app" / "migrations" / "versions"
    last = max(int(path.name[:4]) for path in versions.glob("[0-9]*.py"))
    expected = f"{last + 1:04d}"
    path = Path(fresh.ok("db", "revision", "add colours").strip())
    assert path == versions / f"{expected}_add_colours.py"
    assert expected in fresh.run("db", "upgrade").stderr


def test_commands_before_the_first_upgrade_name_it(fresh: Project):
    """An empty database is a sentence, not a missing table."""
    serve = ["serve", "--port", str(free_port())]
    for command in (["messages", "list"], ["keys", "list"], serve, ["relay", "--once"]):
        assert_sentence(fresh.run(*command), 1, "empty", f"{program()} db upgrade")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql+asyncpg://app:hush@127.0.0.1:1/app", "app at 127.0.0.1:1 does not answer"),
        ("postgresql+asyncpg://app:hush@no.such.host.invalid/app", "does not answer"),
        ("sqlite+aiosqlite:///README.md", "is not a SQLite database"),
        ("sqlite+aiosqlite:///README.md/app.db", "can't be made"),
        ("mysql://app:hush@127.0.0.1/app", "APP_DATABASE_URL starts with 'mysql'"),
    ],
)
def test_an_unusable_database_is_one_sentence_without_the_password(
    fresh: Project, url: str, words: str
):
    """Whatever the driver raises, a person reads what is wrong and what to do."""
    (fresh.folder / "README.md").write_text("no database at all, only a text of some length\n" * 40)
    done = fresh.run("messages", "list", APP_DATABASE_URL=url)
    assert_sentence(done, 1, words)
    assert "hush" not in done.stderr


def test_a_database_that_does_not_exist_is_one_sentence(fresh: Project, postgresql_url: str):
    """PostgreSQL is there, the database is not."""
    done = fresh.run("keys", "list", APP_DATABASE_URL=f"{postgresql_url}_not")
    assert_sentence(done, 1, "does not exist")


def test_migrations_travel_inside_the_package():
    """`db upgrade` works from a wheel."""
    assert Path(app.migrations.versions.__file__).is_relative_to(ROOT / "app")
