"""Every sealed release, generated, edited in twelve places and brought to the work tree.

`UPGRADE_OWN_TESTS=full` runs `make test` in each upgraded project, as its owner would (six minutes
each, and it installs); otherwise the tests of its database, with the packages that are here.
"""

import compileall
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scaffolder import __version__, packing
from scaffolder.packing import TemplateFile
from tests.upgrade.conftest import ROOT, Project, Tool
from tests.upgrade.rendered import digest, stored

SEALED = tuple(sorted(packing.sealed_versions(ROOT / "releases")))
REHEARSAL = "0.0.1"
SOME = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/db")
ALL = ("make", "test", f"PYTHON={sys.executable}")
OWN_TESTS = ALL if os.environ.get("UPGRADE_OWN_TESTS") == "full" else SOME
MIGRATION = '''"""Mine."""

from alembic import op

revision = "a1"
down_revision = "{head}"


def upgrade() -> None:
    """Change what is stored, not how."""
    op.execute("UPDATE endpoints SET description = 'mine' WHERE description = ''")


def downgrade() -> None:
    """Leave it."""
'''


def test_releases_are_sealed_once_there_is_one() -> None:
    """From the first release on there is always something to upgrade from."""
    first = __version__ == "0.1.0.dev0"
    assert SEALED or first, "releases/ is empty, but this is not the first version"


@pytest.mark.parametrize("version", SEALED)
def test_a_release_renders_to_what_it_rendered_to_when_it_was_made(version: str) -> None:
    """Otherwise every file that came out differently would look like an owner's edit."""
    if version not in stored():
        pytest.skip(f"no digest of {version} is stored yet: python -m tests.upgrade.rendered")
    assert digest(version) == stored()[version]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """A copy of this checkout, with one more seal: the work tree as it might have been before."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "scaffolder", folder / "scaffolder", ignore=ignored)
    files = packing.read_tree(ROOT)
    packing.unpack(files, folder)
    shutil.copytree(ROOT / "releases", folder / "releases")
    archive = folder / "releases" / f"{REHEARSAL}.tar.gz"
    archive.write_bytes(packing.seal(before(files)))
    (folder / "home").mkdir()
    return Tool(folder, folder / "home")


def before(files: tuple[TemplateFile, ...]) -> list[TemplateFile]:
    """Return a template that lacks a page and a migration, and says one thing differently."""
    missing = ("template/docs/guarantees.md", "template/app/migrations/versions/0002_orders.py")
    changed = "template/pytest.ini"
    return [
        TemplateFile(file.path, b"# An older remark.\n" + file.data, file.executable)
        if file.path == changed
        else file
        for file in files
        if file.path not in missing
    ]


def edit_in_twelve_places(project: Project) -> list[bytes]:
    """Do what owners do; return what must be found afterwards."""
    appended = (
        "README.md", "Makefile", "pyproject.toml", ".gitignore", "app/config.py", "app/wiring.py",
        "tests/conftest.py",
    )  # fmt: skip
    tokens = []
    for number, name in enumerate(appended):
        token = f"# owner's line {number}".encode()
        project.write(name, project.read(name) + b"\n" + token + b"\n")
        tokens.append(token)
    project.write("app/mine.py", b"MINE = 1\n")
    project.write("logo.png", b"\0owner's picture")
    newest = max(project.path("app/migrations/versions").glob("0*.py")).read_text()
    head = newest.partition('revision = "')[2].partition('"')[0]
    project.write("app/migrations/versions/a1_mine.py", MIGRATION.format(head=head).encode())
    project.path("docs/glossary.md").unlink()
    project.git("mv", "docs/disagree.md", "docs/opinions.md")
    for name in ("README.md", "docs/architecture.md"):  # where they were linked
        text = re.sub(r"\[([^\]]+)\]\((?:docs/)?glossary\.md\)", r"\1", project.read(name).decode())
        project.write(name, text.replace("disagree.md", "opinions.md").encode())
    project.path("constraints.txt").chmod(0o755)
    project.commit()
    return [*tokens, b"MINE = 1\n", b"\0owner's picture", b'revision = "a1"']


@pytest.mark.parametrize("version", [*SEALED, REHEARSAL])
def test_a_release_is_brought_to_the_work_tree_with_every_edit(
    checkout: Tool, tmp_path: Path, version: str
) -> None:
    """Nothing is lost, nothing is in conflict, and the project's own tests pass."""
    made = checkout.run(
        "new", "shop", "--yes", "--no-install", "--template-version", version, cwd=tmp_path
    )
    assert made.code == 0, made.err
    project = Project(tmp_path / "shop", checkout)
    tokens = edit_in_twelve_places(project)
    run = project.upgrade()
    assert run.code == 0, run.out + run.err
    everything = b"\n".join(value[2] for value in project.snapshot().values())
    assert [token for token in tokens if token not in everything] == []
    assert not project.path("docs/glossary.md").exists()
    assert not project.path("docs/disagree.md").exists()
    assert project.path("constraints.txt").stat().st_mode & 0o111
    assert f"_commit: {__version__}\n".encode() in project.read(".copier-answers.yml")
    if version == REHEARSAL:
        assert run.verdicts["docs/guarantees.md"] == "added"
        assert run.verdicts["app/migrations/versions/0002_orders.py"] == "added"
        assert b'down_revision = "a1"' in project.read("app/migrations/versions/0002_orders.py")
        assert project.read("pytest.ini") == (ROOT / "template/pytest.ini").read_bytes()
    check_it_works(project)


def check_it_works(project: Project) -> None:
    """Every module compiles, and the project's own tests pass."""
    assert compileall.compile_dir(project.path("app"), quiet=1)
    kept = ("PATH", "HOME", "LANG", "TEST_DATABASE_URL")
    done = subprocess.run(
        OWN_TESTS, cwd=project.root, env={n: os.environ[n] for n in kept if n in os.environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(done.stdout[-2000:])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
