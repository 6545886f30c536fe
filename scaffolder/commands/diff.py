"""`scaffolder diff`: the patch that an upgrade would apply; nothing is touched."""

from dataclasses import dataclass

from scaffolder.progress import Progress
from scaffolder.upgrade import planning
from scaffolder.upgrade.journal import Area, interruption, read_journal
from scaffolder.upgrade.planning import Wish, planned
from scaffolder.upgrade.verdicts import FileVerdict
from scaffolder.upgrade.versions import Step


@dataclass(frozen=True, slots=True)
class Report:
    """The patch, empty when there is nothing to do, and the files where both sides disagree."""

    step: Step
    patch: bytes
    conflicts: tuple[FileVerdict, ...]


def diff(wish: Wish, progress: Progress) -> Report:
    """Return the difference between the project's last commit and the result of an upgrade."""
    project = planning.open_project(wish.path)
    journal = read_journal(Area(project.git_dir))
    if journal is not None:
        raise interruption(journal.step)
    with planned(project, wish, progress, None) as plan:
        if isinstance(plan, Step):
            return Report(plan, b"", ())
        scratch, result = plan.scratch, plan.result
        patch = scratch.git.run(
            *("diff", "--binary", "-M", "--no-color", "--no-ext-diff"),
            *(project.tree, scratch.write_tree(result.merge.tree)),
        )
        return Report(result.step, patch, result.conflicts)
