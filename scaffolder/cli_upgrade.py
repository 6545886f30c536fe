"""The commands for a project that exists: upgrade, diff, status.

Exit codes of `upgrade` and `diff` tell a script what to do next: 0 clean, 1 conflicts for a
person, 2 refused and nothing touched.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from scaffolder import interrupt
from scaffolder.errors import CannotProceed, Interrupted, ScaffolderError

if TYPE_CHECKING:
    from scaffolder.console import Console

REFUSED = 2
Report = TypeVar("Report")

ProjectPath = Annotated[Path, typer.Argument(metavar="PATH", help="The project, or this folder.")]
To = Annotated[
    str | None,
    typer.Option(metavar="VERSION", help="Another template version that this tool carries."),
]
Enable = Annotated[
    list[str] | None, typer.Option("--with", metavar="FEATURE", help="Add a feature.")
]
Disable = Annotated[
    list[str] | None, typer.Option("--without", metavar="FEATURE", help="Remove a feature.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (upgrade, diff, status):
        app.command()(command)


def upgrade(
    path: ProjectPath = Path(),
    to: To = None,
    with_: Enable = None,
    without: Disable = None,
    branch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Commit on a new branch; the work tree stays."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would become of each file.")
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Take an interrupted upgrade back.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing; a new question takes its default.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Merge a newer template, or other features, into a project. Exit 1 means conflicts."""
    from scaffolder.commands import upgrade as command
    from scaffolder.console import Console
    from scaffolder.upgrade.planning import Wish
    from scaffolder.upgrade_reporting import show_aborted, show_upgrade, upgrade_as_json

    console = Console()
    if abort:
        show_aborted(_run(console, lambda: command.abort(path)), console)
        return
    wish = Wish(path, to, tuple(with_ or ()), tuple(without or ()))
    request = command.Request(wish, branch, dry_run, ask=not yes)
    asker = console if console.interactive else None
    report = _run(console, lambda: command.upgrade(request, console, asker))
    if as_json:
        console.json(upgrade_as_json(report))
    else:
        show_upgrade(report, console)
    if report.conflicts:
        raise typer.Exit(1)


def diff(path: ProjectPath = Path(), to: To = None) -> None:
    """Print the patch that an upgrade would apply."""
    from scaffolder.commands import diff as command
    from scaffolder.console import Console
    from scaffolder.upgrade.planning import Wish
    from scaffolder.upgrade_reporting import show_diff

    console = Console()
    report = _run(console, lambda: command.diff(Wish(path, to), console))
    show_diff(report, console)
    if report.conflicts:
        raise typer.Exit(1)


def status(
    path: ProjectPath = Path(),
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 1 when a newer template is here.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a project's template version, its newest one, and what was edited since."""
    from scaffolder.commands import status as command
    from scaffolder.console import Console
    from scaffolder.upgrade_reporting import show_status, status_as_json

    console = Console()
    report = _run(console, lambda: command.status(path, console))
    if as_json:
        console.json(status_as_json(report))
    else:
        show_status(report, console)
    if exit_code and report.newer:
        raise typer.Exit(1)


def _run(console: "Console", command: Callable[[], Report]) -> Report:
    try:
        with interrupt.exposed():
            return command()
    except BaseException as raised:
        error = INTERRUPTED if interrupt.seen() else raised
        if isinstance(error, OSError):
            error = CannotProceed(
                f"`{error.filename}` cannot be used: {error.strerror}",
                hint="mend that, and run the command again",
            )
        if not isinstance(error, ScaffolderError):
            raise
        console.error(error)
        raise typer.Exit(REFUSED) from None


INTERRUPTED = Interrupted(
    "interrupted, and nothing of the project was touched", hint="run the same command again"
)
