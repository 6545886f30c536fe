"""From a path and a wish to a merge: which project, which versions, which answers, both rendered.

Everything that can be refused without rendering is refused first: importing copier takes most of
the time of a run.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scaffolder import generate
from scaffolder.answers import Flags
from scaffolder.progress import Asker, Progress
from scaffolder.project import ANSWERS_FILE
from scaffolder.questions import read_questions
from scaffolder.source import CANONICAL_URL, Snapshot, open_snapshot
from scaffolder.upgrade import carrying, rendering, versions
from scaffolder.upgrade.carrying import Carried
from scaffolder.upgrade.changelog import CHANGELOG, News, news
from scaffolder.upgrade.engine import Result, combine
from scaffolder.upgrade.registry import REGISTRY, Registry
from scaffolder.upgrade.repository import Repository, check_git, find_project, open_repository
from scaffolder.upgrade.scratch import Scratch, open_scratch
from scaffolder.upgrade.versions import Step


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for."""

    path: Path
    to: str | None = None
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()

    @property
    def flags(self) -> Flags:
        """Return the feature switches as the command line of `new` has them."""
        return Flags(enable=self.enable, disable=self.disable)


@dataclass(frozen=True, slots=True)
class Plan:
    """A project and what an upgrade makes of it."""

    project: Repository
    scratch: Scratch
    result: Result
    news: tuple[News, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    step: Step
    old: Snapshot
    new: Snapshot
    before: dict[str, str | bool]
    carried: Carried


def open_project(path: Path) -> Repository:
    """Return the repository of the project at or above `path`."""
    check_git()
    return open_repository(find_project(path))


def read_origin(project: Repository) -> carrying.Origin:
    """Return what the committed answers file says."""
    return carrying.read_origin(project.file(ANSWERS_FILE) or b"")


@contextmanager
def planned(
    project: Repository, wish: Wish, progress: Progress, asker: Asker | None,
    *, registry: Registry = REGISTRY,
) -> Iterator[Plan | Step]:  # fmt: skip
    """Give the plan, or the step alone when the project already has what is wished for."""
    origin = read_origin(project)
    way = _way(origin, wish, asker, registry)
    if not way.step.is_change and way.before == way.carried.data:
        yield way.step
        return
    generate.preload()
    # A path of one machine says nothing on another; the address of a mirror is the owner's choice.
    stored = origin.source or CANONICAL_URL
    source = CANONICAL_URL if Path(stored).is_absolute() else stored
    with tempfile.TemporaryDirectory(prefix="scaffolder-", ignore_cleanup_errors=True) as name:
        box = Path(name)
        progress.working(f"rendering template {way.step.old}")
        old = rendering.render(
            way.old, way.before, rendering.Origin(origin.version, stored), _folder(box, "old")
        )
        progress.working(f"rendering template {way.step.new}")
        new = rendering.render(
            way.new, way.carried.data, rendering.Origin(way.step.new, source), _folder(box, "new")
        )
        progress.working("merging")
        scratch = open_scratch(box / "scratch", project)
        result = combine(project, scratch, old, new, registry=registry)
        notes = (*way.carried.notes, *result.notes)
        yield Plan(project, scratch, replace(result, notes=notes), _news(way))


def _way(origin: carrying.Origin, wish: Wish, asker: Asker | None, registry: Registry) -> _Way:
    step = versions.step(origin.version, wish.to)
    old, new = open_snapshot(step.old), open_snapshot(step.new)
    before = carrying.as_stored(origin.answers, read_questions(old.text("copier.yml")))
    questions = read_questions(new.text("copier.yml"))
    carried = carrying.carry(origin.answers, questions, step, wish.flags, asker, registry)
    return _Way(step, old, new, before, carried)


def _folder(box: Path, name: str) -> Path:
    folder = box / name
    folder.mkdir()
    return folder


def _news(way: _Way) -> tuple[News, ...]:
    return news(way.new.text(CHANGELOG), way.step) if way.step.is_change else ()
