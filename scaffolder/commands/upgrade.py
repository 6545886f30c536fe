"""`scaffolder upgrade`: merges a newer template, or other features, into a project.

Invariant: until the merge is done nothing of the project is touched; after that the journal
makes every instant one that can be finished or taken back.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from scaffolder.errors import BadInput
from scaffolder.progress import Asker, Progress
from scaffolder.upgrade import planning, recovery
from scaffolder.upgrade.branching import check_branch, commit_on_branch
from scaffolder.upgrade.changelog import News
from scaffolder.upgrade.journal import Area, Journal, alone, interruption, read_journal
from scaffolder.upgrade.planning import Plan, Wish, planned
from scaffolder.upgrade.registry import REGISTRY, Registry
from scaffolder.upgrade.repository import Repository
from scaffolder.upgrade.transaction import apply, check_clear
from scaffolder.upgrade.verdicts import FileVerdict, Verdict
from scaffolder.upgrade.versions import Step
from scaffolder.upgrade.worktree import UNDO, check_ready, read_state


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for; `ask` is off with --yes."""

    wish: Wish
    branch: str | None = None
    dry_run: bool = False
    ask: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """What an upgrade did, or would do."""

    path: Path
    step: Step
    verdicts: tuple[FileVerdict, ...]
    notes: tuple[str, ...]
    news: tuple[News, ...] = ()
    branch: str | None = None
    dry_run: bool = False
    resumed: bool = False

    @property
    def conflicts(self) -> tuple[FileVerdict, ...]:
        """Return the files that a person must settle."""
        return tuple(each for each in self.verdicts if each.verdict is Verdict.CONFLICT)

    @property
    def up_to_date(self) -> bool:
        """Tell whether there was nothing to do."""
        return not self.verdicts

    @property
    def applied(self) -> bool:
        """Tell whether work tree and index hold the result."""
        return not (self.up_to_date or self.dry_run or self.branch)


@dataclass(frozen=True, slots=True)
class Aborted:
    """What an abort took back, and what was changed since and stays."""

    step: Step
    left: tuple[str, ...]


def upgrade(
    request: Request, progress: Progress, asker: Asker | None, *, registry: Registry = REGISTRY
) -> Report:
    """Upgrade a project; an interrupted upgrade is finished first, and is the whole run."""
    project = planning.open_project(request.wish.path)
    area = Area(project.git_dir)
    touches = not request.dry_run and request.branch is None
    with alone(area) if touches else nullcontext():
        journal = read_journal(area)
        if journal is not None:
            return _resume(request, project, area, journal)
        if request.branch is not None:
            check_branch(project, request.branch)
        elif touches:
            check_ready(project, read_state(project))
        person = asker if request.ask else None
        with planned(project, request.wish, progress, person, registry=registry) as plan:
            if isinstance(plan, Step):
                return Report(project.root, plan, (), ())
            return _carry_out(request, plan)


def abort(path: Path) -> Aborted:
    """Take an interrupted upgrade back."""
    project = planning.open_project(path)
    area = Area(project.git_dir)
    with alone(area):
        journal = read_journal(area)
        if journal is None:
            raise BadInput(
                "no upgrade was interrupted here, so there is nothing to abort",
                hint=f"a finished upgrade that is not committed is undone with: {UNDO}",
            )
        return Aborted(journal.step, recovery.abort(project, area, journal).left)


def _carry_out(request: Request, plan: Plan) -> Report:
    result = plan.result
    branch = request.branch
    late: tuple[str, ...] = ()
    if request.dry_run:
        if branch is None:
            check_clear(plan.project, result)
    elif branch is None:
        late = apply(plan.project, plan.scratch, result)
    elif not result.conflicts:
        commit_on_branch(plan.project, plan.scratch, result, branch, plan.news)
    return Report(
        plan.project.root,
        result.step,
        result.verdicts,
        (*result.notes, *map(_late, late)),
        plan.news,
        branch,
        request.dry_run,
    )


def _resume(request: Request, project: Repository, area: Area, journal: Journal) -> Report:
    wish = request.wish
    if request.dry_run or request.branch is not None:
        raise interruption(journal.step)
    if wish.to is not None or wish.enable or wish.disable:
        # The journal holds what was asked for then; to finish that is no answer to another wish.
        raise interruption(journal.step, also=", then ask again")
    late = recovery.resume(project, area, journal)
    notes = (*journal.notes, *map(_late, late))
    return Report(project.root, journal.step, journal.verdicts, notes, resumed=True)


def _late(path: str) -> str:
    return f"your code: a file was edited while the upgrade replaced it; the edit is in {path}"
