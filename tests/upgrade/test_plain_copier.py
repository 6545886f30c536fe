"""A project remains one of plain copier's: either tool may bring the next version."""

import subprocess
import sys
from pathlib import Path

import pytest

from scaffolder.packing import unpack
from scaffolder.source import CANONICAL_URL
from tests.upgrade.conftest import OFFLINE, Project, Tool, make_tool
from tests.upgrade.templates import FIRST, SECOND, Files, lines, packed

THIRD: Files = SECOND | {
    "template/app/still.py": lines((5, "still 5 is new"), name="still"),
    "template/app/third.py": lines(name="third"),
}
RELEASES = {"1.0.0": FIRST, "2.0.0": SECOND, "3.0.0": THIRD}


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """The tool of 3.0.0, which carries all three releases."""
    return make_tool(tmp_path / "tool", RELEASES)


@pytest.fixture
def canonical(tool: Tool, tmp_path: Path) -> dict[str, str]:
    """A repository with a tag for each release, and the settings that lead its address there."""
    repository = Project(tmp_path / "canonical", tool)
    repository.root.mkdir()
    repository.git("init", "-q")
    for version, files in RELEASES.items():
        unpack(packed(files), repository.root)
        repository.git("add", "--all")
        repository.git("commit", "-q", "-m", version)
        repository.git("tag", version)
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{repository.root}.insteadOf",
        "GIT_CONFIG_VALUE_0": CANONICAL_URL,
        **{f"GIT_{who}_NAME": "owner" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "owner@localhost" for who in ("AUTHOR", "COMMITTER")},
    }


def _copier(project: Project, canonical: dict[str, str], *arguments: str) -> None:
    done = subprocess.run(
        [*OFFLINE, sys.executable, "-m", "copier", *arguments],
        cwd=project.root, env=project.tool.env | canonical, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_copier_updates_what_this_tool_upgraded(
    tool: Tool, canonical: dict[str, str], tmp_path: Path
) -> None:
    """First version made here, second merged here, third by plain copier, without trust."""
    made = tool.run(
        "new", "shop", "--yes", "--no-install", "--template-version", "1.0.0", cwd=tmp_path
    )
    assert made.code == 0, made.err
    project = Project(tmp_path / "shop", tool)
    project.replace("app/lines.py", "line 2 of the template", "line 2 of the owner")
    project.commit()
    assert project.upgrade("--to", "2.0.0").code == 0
    project.commit()
    _copier(project, canonical, "update", "--defaults", "--skip-answered", "--quiet")
    assert project.read("app/third.py") == lines(name="third")
    assert b"still 5 is new" in project.read("app/still.py")
    assert b"line 2 of the owner" in project.read("app/lines.py")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "up to date: the project has template 3.0.0" in run.err


def test_this_tool_upgrades_what_copier_made_and_updated(
    tool: Tool, canonical: dict[str, str], tmp_path: Path
) -> None:
    """And the other way round: the answers file of copier itself is as good."""
    project = Project(tmp_path / "shop", tool)
    project.root.mkdir()
    flags = ("--defaults", "--quiet", "--vcs-ref")
    _copier(project, canonical, "copy", *flags, "1.0.0", CANONICAL_URL, ".")
    project.git("init", "-q")
    project.commit()
    _copier(project, canonical, "update", *flags, "2.0.0")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.read("app/third.py") == lines(name="third")
    assert b"_commit: 3.0.0\n" in project.read(".copier-answers.yml")


def test_a_project_made_from_a_local_path_gets_the_address_that_lasts(
    tool: Tool, canonical: dict[str, str], tmp_path: Path
) -> None:
    """A path of one machine is nothing that a colleague could update from."""
    project = Project(tmp_path / "shop", tool)
    project.root.mkdir()
    source = str(tmp_path / "canonical")
    _copier(project, canonical, "copy", "--defaults", "--quiet", "--vcs-ref", "1.0.0", source, ".")
    project.git("init", "-q")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert f"_src_path: {CANONICAL_URL}\n" in project.read(".copier-answers.yml").decode()
