"""`scaffolder new`: everything is checked, then built beside the target, then put in place.

Invariant: until the last step has ended, an error or an interrupt removes all that was
written. Only a failed installation keeps the project, with the commands that are left.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scaffolder import answers, generate, git, install, interrupt, naming, preflight, project
from scaffolder.answers import Answers, Flags, Given
from scaffolder.errors import BadInput
from scaffolder.packing import unpack
from scaffolder.preflight import Destination
from scaffolder.progress import Asker, Progress
from scaffolder.questions import Questions, load_yaml, read_questions
from scaffolder.source import Snapshot, open_snapshot
from scaffolder.staging import put_in_place, staging
from scaffolder.upgrade.rendering import link_migrations

LISTEN_URL = "http://127.0.0.1:9000/"  # of the project's `listen`


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    target: str
    flags: Flags
    data_file: Path | None = None
    template_version: str | None = None
    yes: bool = False
    git: bool = True
    install: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What was made, or what a dry run would make."""

    path: Path
    template_version: str
    answers: Answers
    dry_run: bool
    files: tuple[str, ...]
    committed: bool
    installed: bool
    failure: install.Failure | None
    command: str
    next_commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    request: Request
    place: Destination
    snapshot: Snapshot
    questions: Questions
    answers: Answers

    @property
    def commits(self) -> bool:
        return self.request.git and not self.place.has_own_repository


def new(request: Request, progress: Progress, asker: Asker | None) -> Report:
    """Make a project; `asker` is None where there is no terminal to ask on."""
    plan = _plan(request, asker)
    commits = plan.commits
    progress.working("rendering the template")
    with staging(plan.place, in_system_folder=request.dry_run) as box:
        built = _render(plan, box)
        files = project.list_files(built)
        if request.dry_run:
            return _report(plan, files, committed=commits, installed=False, failure=None)
        progress.done(f"{len(files)} files rendered, .env has a fresh secret")
        _commit(plan, built, progress)
        placed = put_in_place(built, plan.place)
    try:
        failure = _install(plan, progress)
        interrupt.check()
    except BaseException:
        placed.take_back(install.VENV)
        raise
    installed = request.install and failure is None
    return _report(plan, files, committed=commits, installed=installed, failure=failure)


def _plan(request: Request, asker: Asker | None) -> _Plan:
    place = preflight.destination(request.target)
    if request.target != ".":
        naming.check_name(request.target)
    snapshot = open_snapshot(request.template_version)
    questions = read_questions(snapshot.text("copier.yml"))
    data = _read_data(request.data_file, questions)
    name = _name(request.target, place, data)
    pinned = naming.pinned_names(snapshot.text("template/constraints.txt"))
    naming.check_name(name, dependencies=pinned)
    given = answers.check(request.flags, data, questions)
    preflight.check_destination(place)
    _check_answerable(request, given, questions, asker)
    preflight.check_git(place, wanted=request.git and not request.dry_run)
    generate.preload()
    person = None if request.yes else asker
    return _Plan(
        request, place, snapshot, questions, answers.gather(name, given, questions, person)
    )


def _read_data(path: Path | None, questions: Questions) -> Mapping[str, object]:
    if path is None:
        return {}
    try:
        loaded = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(
            f"data file `{path}` cannot be read: {error.strerror}",
            hint="name a readable file of `name: answer` lines",
        ) from None
    except ValueError as error:
        raise BadInput(
            f"data file `{path}` is not YAML: {error}",
            hint="write for example: database: postgresql",
        ) from None
    return answers.check_data(loaded, questions, str(path))


def _name(target: str, place: Destination, data: Mapping[str, object]) -> str:
    if target != ".":
        return target
    return str(data.get("project_name", place.path.name))


def _check_answerable(
    request: Request, given: Given, questions: Questions, asker: Asker | None
) -> None:
    if asker is None and not request.yes and not given.complete(questions):
        raise BadInput(
            "there is no terminal to ask on, and questions are open without --yes",
            hint="add --yes to take the default answers",
        )


def _render(plan: _Plan, box: Path) -> Path:
    template, built = box / "template", box / "project"
    unpack(plan.snapshot.files, template)
    interrupt.check()
    generate.render(template, built, plan.answers.as_data(plan.questions))
    interrupt.check()
    link_migrations(built, plan.snapshot)
    project.record_origin(built, plan.snapshot.version)
    project.write_env(built)
    return built


def _commit(plan: _Plan, built: Path, progress: Progress) -> None:
    if plan.commits:
        progress.working("making the first commit")
        version = plan.snapshot.version
        git.commit_all(built, f"{plan.answers.project_name} from scaffolder {version}")
        progress.done("git repository with a first commit")
    elif plan.request.git:
        progress.note("no git repository made: this is inside an existing work tree")


def _install(plan: _Plan, progress: Progress) -> install.Failure | None:
    if not plan.request.install:
        return None
    return install.install(plan.place.path, on_line=progress.working, on_done=progress.done)


def _report(
    plan: _Plan,
    files: tuple[str, ...],
    *,
    committed: bool,
    installed: bool,
    failure: install.Failure | None,
) -> Report:
    if installed:
        prepare: tuple[str, ...] = ()
    elif failure is not None:
        prepare = (" && ".join(failure.commands),)
    else:
        prepare = (install.typed(plan.place.path),)
    return Report(
        path=plan.place.path,
        template_version=plan.snapshot.version,
        answers=plan.answers,
        dry_run=plan.request.dry_run,
        files=files,
        committed=committed and not plan.request.dry_run,
        installed=installed,
        failure=failure,
        command=_equivalent(plan),
        next_commands=_next_commands(plan, prepare),
    )


def _equivalent(plan: _Plan) -> str:
    request = plan.request
    words = ["scaffolder", "new", request.target]
    words += answers.command_line(plan.answers, plan.questions)
    if request.target == "." and plan.answers.project_name != plan.place.path.name:
        words += ["--data-file", str(request.data_file)]
    if request.template_version is not None:
        words += ["--template-version", request.template_version]
    words += ["--no-git"] * (not request.git) + ["--no-install"] * (not request.install)
    return shlex.join(words)


def _next_commands(plan: _Plan, prepare: tuple[str, ...]) -> tuple[str, ...]:
    program = f"{install.scripts_folder()}/{plan.answers.project_name}"
    pattern = "order.*" if "orders" in plan.answers.features else "*"
    enter = () if plan.request.target == "." else (f"cd {plan.answers.project_name}",)
    run = (
        f"{program} dev",
        f"{program} endpoints add {LISTEN_URL} --types '{pattern}'",
        "make check",
    )
    return (*enter, *prepare, *run)[:3]
