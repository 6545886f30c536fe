"""Database migrations: whatever both sides add, the history stays one line."""

from pathlib import Path

import pytest

from scaffolder.upgrade.schema import heads, is_migration, read_migration
from tests.upgrade.conftest import Project, Tool
from tests.upgrade.templates import VERSIONS, migration


def _history(project: Project) -> dict[str, tuple[str, ...]]:
    """Return revision -> parents of the work tree."""
    found = {}
    for path in sorted(project.path(VERSIONS).glob("*.py")):
        name = path.relative_to(project.root).as_posix()
        if is_migration(name):
            read = read_migration(name, path.read_bytes())
            assert read is not None, name
            found[read.revision] = read.parents
    return found


def test_a_new_migration_follows_the_owners_last_one(project: Project) -> None:
    """Databases that ran the owner's one then run the template's; both orders are one line."""
    project.write(f"{VERSIONS}/a1_mine.py", migration("a1", "0001"))
    project.write(f"{VERSIONS}/b2_mine.py", migration("b2", "a1"))
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    expected = {"0001": (), "a1": ("0001",), "b2": ("a1",), "0003": ("b2",)}
    assert _history(project) == expected
    assert "0003_third.py follows b2 here, so that the history stays one line" in run.err
    assert "there is a new migration: `db upgrade` of your project runs it" in run.err


def test_a_project_with_no_own_migration_keeps_the_templates_line(project: Project) -> None:
    """With the feature whose migration lies between, nothing has to move."""
    assert project.upgrade("--to", "1.0.0", "--with", "extra").code == 0
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert _history(project) == {"0001": (), "0002": ("0001",), "0003": ("0002",)}
    assert "history stays one line" not in run.err


def test_the_migration_of_a_feature_added_later_comes_last(project: Project) -> None:
    """Databases have run what lies after its place in the template."""
    project.write(f"{VERSIONS}/a1_mine.py", migration("a1", "0001"))
    project.commit()
    run = project.upgrade("--with", "extra")
    assert run.code == 0, run.err
    expected = {"0001": (), "a1": ("0001",), "0002": ("a1",), "0003": ("0002",)}
    assert _history(project) == expected


def test_a_feature_added_after_a_later_migration_moves_nothing_else(project: Project) -> None:
    """What is in the project already keeps its place, whatever the template says now."""
    assert project.upgrade().code == 0
    project.commit()
    assert _history(project) == {"0001": (), "0003": ("0001",)}
    run = project.upgrade("--with", "extra")
    assert run.code == 0, run.err
    assert _history(project) == {"0001": (), "0003": ("0001",), "0002": ("0003",)}


def test_the_migration_of_a_removed_feature_stays(project: Project) -> None:
    """Databases have run it; the tables go by a migration of the owner's, not by a lost file."""
    assert project.upgrade("--with", "extra").code == 0
    project.commit()
    before = _history(project)
    run = project.upgrade("--without", "extra")
    assert run.code == 0, run.err
    assert run.verdicts[f"{VERSIONS}/0002_extra.py"] == "kept"
    assert run.verdicts["app/extra/more.py"] == "removed"
    assert _history(project) == before


def test_a_revision_that_both_sides_use_is_renamed_in_the_new_file(project: Project) -> None:
    """The owner counted on from the template's numbers."""
    project.write(f"{VERSIONS}/0003_mine.py", migration("0003", "0001"))
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert _history(project) == {"0001": (), "0003": ("0001",), "0003_third": ("0003",)}
    assert "your project already has a revision 0003" in run.err


def test_two_heads_of_the_owner_are_joined_by_the_next_migration(project: Project) -> None:
    """They are told, and one line comes out."""
    project.write(f"{VERSIONS}/a1_mine.py", migration("a1", "0001"))
    project.write(f"{VERSIONS}/b2_mine.py", migration("b2", "0001"))
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert _history(project)["0003"] == ("a1", "b2")
    assert "your history has 2 heads: a1, b2" in run.err


def test_a_migration_that_must_be_run_to_be_read_is_named(project: Project) -> None:
    """Nothing of the project is imported; a person is told what to look at."""
    project.write(f"{VERSIONS}/a1_mine.py", b"revision = str(1)\ndown_revision = '0001'\n")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "a1_mine.py cannot be read without running it" in run.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'revision: str = "b"\ndown_revision: str | None = "a"\n', ("b", ("a",))),
        (b'revision = "c"\ndown_revision = ("a", "b")\n', ("c", ("a", "b"))),
        (b'revision = "a"\ndown_revision = None\n', ("a", ())),
        (b'revision = "a"\n', None),
        (b"revision = (\n", None),
        (b"\0", None),
    ],
)
def test_a_revision_file_is_parsed(
    text: bytes, expected: tuple[str, tuple[str, ...]] | None
) -> None:
    """Annotated, joined, first, and what is none."""
    read = read_migration("x.py", text)
    assert expected == (None if read is None else (read.revision, read.parents))


def test_heads_are_what_nothing_follows() -> None:
    """Of a chain there is one."""
    files = [migration("0001", None), migration("0002", "0001"), migration("0003", "0001")]
    read = [read_migration(f"{n}.py", data) for n, data in enumerate(files)]
    known = [each for each in read if each is not None]
    assert heads(known) == ("0002", "0003")
    assert heads(known[:2]) == ("0002",)


def test_a_new_project_without_a_feature_has_no_gap(tool: Tool, tmp_path: Path) -> None:
    """The template's chain goes through the feature's migration; the next one closes up."""
    for name, flag in (("short", "--without"), ("long", "--with")):
        made = tool.run("new", name, "--yes", "--no-install", flag, "extra", cwd=tmp_path)
        assert made.code == 0, made.err
    assert _history(Project(tmp_path / "short", tool)) == {"0001": (), "0003": ("0001",)}
    whole = {"0001": (), "0002": ("0001",), "0003": ("0002",)}
    assert _history(Project(tmp_path / "long", tool)) == whole
