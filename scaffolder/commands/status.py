"""`scaffolder status`: what a project was made from, what is newer, what its owner changed."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from scaffolder import generate
from scaffolder.errors import BadInput
from scaffolder.progress import Progress
from scaffolder.project import ANSWERS_FILE
from scaffolder.questions import read_questions
from scaffolder.source import open_snapshot
from scaffolder.upgrade import carrying, rendering, versions
from scaffolder.upgrade.carrying import Origin
from scaffolder.upgrade.editing import Edits, edits
from scaffolder.upgrade.journal import Area, read_journal
from scaffolder.upgrade.registry import Answer
from scaffolder.upgrade.repository import find_git_dir, find_project
from scaffolder.upgrade.switches import SWITCHES_FILE, Switch, read_switches
from scaffolder.upgrade.versions import Step


@dataclass(frozen=True, slots=True)
class Report:
    """Where a project stands; `unknown` says why its edits cannot be told.

    `interrupted` is the upgrade that was interrupted here, if one was.
    """

    path: Path
    version: str
    newest: str
    newer: bool
    answers: dict[str, Answer]
    edits: Edits | None
    unknown: str
    switches: tuple[Switch, ...]
    interrupted: Step | None

    @property
    def open_switches(self) -> tuple[Switch, ...]:
        """Return the behaviour that is offered and not yet taken."""
        return tuple(each for each in self.switches if not each.taken)


def status(path: Path, progress: Progress) -> Report:
    """Compare a project with the template it was made from; needs neither git nor network."""
    project = find_project(path)
    origin = carrying.read_origin((project / ANSWERS_FILE).read_bytes())
    stored, newest = versions.parse(origin.version), versions.newest()
    switches = project / SWITCHES_FILE
    found, unknown = _edits(project, origin, progress)
    return Report(
        path=project,
        version=origin.version,
        newest=newest,
        newer=stored is not None and stored < Version(newest),
        answers=dict(origin.answers),
        edits=found,
        unknown=unknown,
        switches=read_switches(switches.read_bytes()) if switches.is_file() else (),
        interrupted=_interrupted(project),
    )


def _interrupted(project: Path) -> Step | None:
    git_dir = find_git_dir(project)
    journal = read_journal(Area(git_dir)) if git_dir is not None else None
    return None if journal is None else journal.step


def _edits(project: Path, origin: Origin, progress: Progress) -> tuple[Edits | None, str]:
    try:
        name = versions.base(origin.version)
        snapshot = open_snapshot(name)
        data = carrying.as_stored(origin.answers, read_questions(snapshot.text("copier.yml")))
    except BadInput as error:
        return None, error.message
    generate.preload()
    progress.working(f"rendering template {name}")
    with tempfile.TemporaryDirectory(prefix="scaffolder-") as box:
        rendered_as = rendering.Origin(origin.version, origin.source)
        base = rendering.render(snapshot, data, rendered_as, Path(box))
        # The answers file is the tool's own; its owner changes it with `scaffolder upgrade`.
        return edits(project, base, frozenset({ANSWERS_FILE})), ""
