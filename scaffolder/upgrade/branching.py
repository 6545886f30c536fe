"""Puts a result on a branch of its own as one commit; work tree and index are not touched."""

import tempfile
from pathlib import Path

from scaffolder import git as command
from scaffolder.errors import BadInput
from scaffolder.upgrade.changelog import News
from scaffolder.upgrade.engine import Result
from scaffolder.upgrade.plumbing import GitFailed
from scaffolder.upgrade.repository import Repository
from scaffolder.upgrade.scratch import Scratch
from scaffolder.upgrade.transaction import import_objects, index_lines


def check_branch(project: Repository, name: str) -> None:
    """Raise BadInput unless a branch of this name can be made."""
    reference = f"refs/heads/{name}"
    if (
        name.startswith("-")
        or project.git.ended("check-ref-format", reference, ok=(0, 1)).returncode
    ):
        raise BadInput(f"`{name}` is no name for a branch", hint="--branch upgrade")
    taken = project.git.ended("show-ref", "--verify", "--quiet", reference, ok=(0, 1))
    if taken.returncode == 0:
        raise BadInput(
            f"there is a branch `{name}` already, and an upgrade makes its own",
            hint=f"choose another name, or remove it with: git branch -D {name}",
        )


def commit_on_branch(
    project: Repository, scratch: Scratch, result: Result, name: str, news: tuple[News, ...]
) -> str:
    """Make the commit and the branch; return the commit. The result must have no conflict."""
    import_objects(project, scratch, result)
    with tempfile.TemporaryDirectory(prefix="scaffolder-") as box:
        git = project.git.with_(GIT_INDEX_FILE=str(Path(box) / "index"))
        git.run("read-tree", project.head)
        git.run("update-index", "-z", "--index-info", data=index_lines(project, result))
        tree = git.line("write-tree")
    identity = command.identity(project.root)
    commit = project.git.run(
        *identity, "-c", "commit.gpgSign=false", "commit-tree", tree, "-p", project.head,
        data=message(result, news).encode(),
    ).decode().strip()  # fmt: skip
    reference, absent = f"refs/heads/{name}", "0" * len(project.head)
    try:
        project.git.run("update-ref", reference, commit, absent)
    except GitFailed as error:
        raise BadInput(
            f"the branch `{name}` could not be made: {error.output.strip()}",
            hint="choose another name",
        ) from None
    return commit


def message(result: Result, news: tuple[News, ...]) -> str:
    """Return a commit message: from where to where, what is new, what became of each file."""
    step = result.step
    title = f"Upgrade the template from {step.old} to {step.new}"
    if not step.is_change:
        title = f"Change the features of template {step.new}"
    parts = [title]
    parts += ["\n".join([f"Template {each.version}:", *each.lines]) for each in news]
    files = [f"{each.verdict:<12} {each.path}" for each in result.verdicts]
    parts += ["\n".join(files), "\n".join(result.notes)]
    return "\n\n".join(part for part in parts if part) + "\n"
