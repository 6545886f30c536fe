"""The repository that a project lives in, read only: where it is and what its last commit holds."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from scaffolder import git as command
from scaffolder.errors import BadInput
from scaffolder.project import ANSWERS_FILE
from scaffolder.upgrade.plumbing import Git, GitFailed, split

_OLDEST_GIT = (2, 38)


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree with at least one commit that holds the project."""

    git: Git
    top: Path
    prefix: str
    git_dir: Path
    objects: Path
    object_format: str
    head: str
    tree: str

    @property
    def root(self) -> Path:
        """Return the folder of the project, which may lie below the top of the work tree."""
        return self.top / self.prefix if self.prefix else self.top

    def file(self, path: str) -> bytes | None:
        """Return a file of the project's last commit."""
        finished = self.git.ended("cat-file", "blob", f"{self.tree}:{path}", ok=(0, 128))
        return finished.stdout if finished.returncode == 0 else None


def find_project(path: Path) -> Path:
    """Return the folder with the answers file: `path` or one above it."""
    start = path.resolve()
    if not start.is_dir():
        raise BadInput(f"there is no folder `{path}`", hint="name the folder of a project")
    for folder in (start, *start.parents):
        if (folder / ANSWERS_FILE).is_file():
            return folder
        if (folder / ".git").exists():
            break
    raise BadInput(
        f"`{start}` is no scaffolder project: it has no `{ANSWERS_FILE}`",
        hint=f"cd to the project; if the file was deleted: git checkout HEAD -- {ANSWERS_FILE}",
    )


def find_git_dir(project: Path) -> Path | None:
    """Return the git directory of a project's work tree; None without a repository or a git."""
    if not command.available():
        return None
    finished = Git(project).ended("rev-parse", "--absolute-git-dir", ok=range(256))
    found = os.fsdecode(finished.stdout).rstrip("\n")
    return Path(found) if finished.returncode == 0 else None


def check_git() -> None:
    """Raise unless there is a git that can merge without a work tree."""
    if not command.available():
        raise BadInput(
            "`git` is not on PATH, and git does the merging", hint="install git 2.38 or newer"
        )
    text = Git(Path.cwd()).line("version")
    found = re.search(r"(\d+)\.(\d+)", text)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST_GIT:
        raise BadInput(
            f"{text} cannot merge without a work tree; that takes git 2.38",
            hint="install git 2.38 or newer",
        )


def open_repository(project: Path) -> Repository:
    """Return the repository of a project folder; raise BadInput naming what is missing."""
    git = Git(project)
    try:
        answer = git.line(
            *("rev-parse", "--path-format=absolute", "--show-toplevel", "--absolute-git-dir"),
            *("--git-path", "objects", "--show-object-format", "--show-prefix"),
        )
    except GitFailed as error:
        if "not a git repository" not in error.output:
            raise
        raise BadInput(
            f"`{project}` is not in a git work tree, and an upgrade merges with the last commit",
            hint="git init && git add --all && git commit -m 'before the upgrade'",
        ) from None
    top, git_dir, objects, object_format, *prefix = answer.split("\n")
    return _with_commit(
        Git(Path(top)), Path(git_dir), Path(objects), object_format, prefix[0] if prefix else ""
    )


def _with_commit(
    git: Git, git_dir: Path, objects: Path, object_format: str, prefix: str
) -> Repository:
    spec = f"HEAD:{prefix.rstrip('/')}"
    head, tree = _resolved(git, "HEAD^{commit}"), _resolved(git, spec)
    if not tree or not _has_answers(git, tree):
        lacking = (
            "has no commit yet" if not head else f"has no commit with `{prefix}{ANSWERS_FILE}`"
        )
        raise BadInput(
            f"the repository in `{git.folder}` {lacking}, and an upgrade merges with the last one",
            hint="git add --all && git commit -m 'before the upgrade'",
        )
    return Repository(git, git.folder, prefix, git_dir, objects, object_format, head, tree)


def _resolved(git: Git, name: str) -> str:
    finished = git.ended("rev-parse", "--verify", "--quiet", name, ok=(0, 1, 128))
    return finished.stdout.decode().strip()


def _has_answers(git: Git, tree: str) -> bool:
    return ANSWERS_FILE in split(git.run("ls-tree", "-z", "--name-only", tree, ANSWERS_FILE))
