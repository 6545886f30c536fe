"""How long an upgrade takes: `scaffolder upgrade` against `copier update`, on the same change.

A hundred files, sixty of them Jinja, twenty changed by the newer version; the owner has edited
ten. Both run as whole processes, each with its own copy of the same project.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Command, Figure, Kind, compare
from scaffolder.packing import TemplateFile, seal, unpack

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sys.executable).parent
FILES, JINJA, CHANGED, EDITED = 100, 60, 20, 10
COPIER_YML = b"""_subdirectory: template
_templates_suffix: .jinja
_answers_file: .copier-answers.yml
project_name:
  type: str
  help: Name
  default: shop
database:
  type: str
  help: Database
  choices: [sqlite, postgresql]
  default: sqlite
"""
ANSWERS = b"{{ _copier_answers | to_nice_yaml -}}\n"


def upgrade(rounds: int) -> list[Figure]:
    """Measure both on copies of one project."""
    with tempfile.TemporaryDirectory() as name:
        box = Path(name)
        env = _environment(box)
        repository, tool = _template(box / "template", env), _tool(box / "tool")
        _project(box / "pristine", repository, env)

        def restore() -> None:
            for project in ("ours", "theirs"):
                shutil.rmtree(box / project, ignore_errors=True)
                shutil.copytree(box / "pristine", box / project)

        restore()
        return [
            compare(
                "upgrade",
                Command(
                    "scaffolder upgrade",
                    (sys.executable, "-m", "scaffolder", "upgrade", "ours"),
                    box,
                    env | {"PYTHONPATH": str(tool)},
                    restore,
                ),
                Command(
                    "copier update",
                    (str(SCRIPTS / "copier"), "update", "--defaults", "theirs"),
                    box,
                    env,
                    restore,
                ),
                kind=Kind.RATIO,
                limit=0.6,
                rounds=rounds,
            )
        ]


def _environment(box: Path) -> dict[str, str]:
    (box / "home").mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return kept | {
        "HOME": str(box / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "owner" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "owner@localhost" for who in ("AUTHOR", "COMMITTER")},
    }


def _version(number: int) -> tuple[TemplateFile, ...]:
    files = {
        "copier.yml": COPIER_YML,
        "template/{{_copier_conf.answers_file}}.jinja": ANSWERS,
        "template/.env.example": b"APP_SECRET_KEY=change-me\n",
    }
    for index in range(FILES):
        suffix = ".jinja" if index < JINJA else ""
        rows = [f"line {row} of file {index}" for row in range(60)]
        rows[30] = f"version {number if index % (FILES // CHANGED) == 0 else 1}"
        if suffix:
            rows[1] = "# {{ project_name }} on {{ database }}"
        text = "\n".join(rows) + "\n"
        files[f"template/app/part{index % 10}/file{index}.py{suffix}"] = text.encode()
    return tuple(TemplateFile(path, data, executable=False) for path, data in files.items())


def _template(folder: Path, env: dict[str, str]) -> Path:
    """Make the repository that copier updates from, a tag for each version."""
    folder.mkdir()
    _git(folder, env, "init", "-q")
    for number in (1, 2):
        unpack(_version(number), folder)
        _git(folder, env, "add", "--all")
        _git(folder, env, "commit", "-q", "-m", f"{number}.0.0")
        _git(folder, env, "tag", f"{number}.0.0")
    return folder


def _tool(folder: Path) -> Path:
    """Make a checkout of this tool that carries the same two versions, sealed."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "scaffolder", folder / "scaffolder", ignore=ignored)
    (folder / "scaffolder" / "__init__.py").write_text('__version__ = "2.0.0"\n', "utf-8")
    (folder / "releases").mkdir()
    for number in (1, 2):
        (folder / "releases" / f"{number}.0.0.tar.gz").write_bytes(seal(_version(number)))
    return folder


def _project(folder: Path, repository: Path, env: dict[str, str]) -> None:
    """Make the project with copier from the first version, and edit it."""
    made = (str(SCRIPTS / "copier"), "copy", "--defaults", "-q", "--vcs-ref", "1.0.0")
    subprocess.run([*made, str(repository), str(folder)], env=env, check=True)
    for index in range(EDITED):
        path = folder / f"app/part{index % 10}/file{index}.py"
        path.write_text(path.read_text("utf-8").replace("line 5 ", "line five "), "utf-8")
    _git(folder, env, "init", "-q")
    _git(folder, env, "add", "--all")
    _git(folder, env, "commit", "-q", "-m", "first")


def _git(folder: Path, env: dict[str, str], *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=env, check=True)
