"""The command line: parse, call, print, exit code; no logic, and copier is never imported here.

A mistake in it is said like every other one, a sentence and a hint, not in Typer's own words.

A new command is a function here, a module in `commands/` and a page in the docs.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scaffolder import __version__, cli_upgrade, interrupt
from scaffolder.errors import BadInput, Interrupted, ScaffolderError

if TYPE_CHECKING:
    from scaffolder.commands.new import Request

# Rich help takes 0.2 s to import, twice as long as everything else that --help does.
app = typer.Typer(
    name="scaffolder",
    help="Generates a Litestar application that never loses an event it has accepted.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    del version


Name = Annotated[
    str, typer.Argument(metavar="NAME|.", help="Name of the project, or . for this folder.")
]
Database = Annotated[
    str | None,
    typer.Option(metavar="sqlite|postgresql", help="Database of the first APP_DATABASE_URL."),
]
Preset = Annotated[
    str | None,
    typer.Option(metavar="full|minimal", help="All features (default) or none to start from."),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with", metavar="FEATURE", help="Switch on: orders, admin, inbox, docker or ci."
    ),
]
Without = Annotated[
    list[str] | None, typer.Option("--without", metavar="FEATURE", help="Switch a feature off.")
]
DataFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Answers as YAML; flags win over it.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing, take the defaults.")]
NoGit = Annotated[bool, typer.Option("--no-git", help="No repository, no commit.")]
NoInstall = Annotated[
    bool, typer.Option("--no-install", help="No virtual environment, no packages.")
]
TemplateVersion = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Another version that this tool carries.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the files, write nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


@app.command()
def new(
    name: Name,
    database: Database = None,
    preset: Preset = None,
    with_: With = None,
    without: Without = None,
    data_file: DataFile = None,
    yes: Yes = False,
    no_git: NoGit = False,
    no_install: NoInstall = False,
    template_version: TemplateVersion = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Generate an application in a new folder, or in this one."""
    from scaffolder.answers import Flags
    from scaffolder.commands.new import Request

    request = Request(
        target=name,
        flags=Flags(database, preset, tuple(with_ or ()), tuple(without or ())),
        data_file=data_file,
        template_version=template_version,
        yes=yes,
        git=not no_git,
        install=not no_install,
        dry_run=dry_run,
    )
    _run_new(request, as_json=as_json)


def _run_new(request: "Request", *, as_json: bool) -> None:
    from scaffolder.commands.new import new as make
    from scaffolder.console import Console
    from scaffolder.reporting import new_as_json, show_new

    console = Console()
    try:
        with interrupt.exposed():
            report = make(request, console, console if console.interactive else None)
    except BaseException as raised:
        error = INTERRUPTED if interrupt.seen() else raised
        if not isinstance(error, ScaffolderError):
            raise
        console.error(error)
        raise typer.Exit(error.exit_code) from None
    if as_json:
        console.json(new_as_json(report))
    else:
        show_new(report, console)
    if report.failure is not None:
        raise typer.Exit(1)


cli_upgrade.register(app)

# Typer carries a copy of click; of its exceptions only this one's children have a public name.
_UsageMistake: type[typer.BadParameter] = typer.BadParameter.__mro__[1]


def run() -> None:
    """Run the command line and end the process."""
    try:
        code = app(prog_name="scaffolder", standalone_mode=False)
    except _UsageMistake as mistake:
        _show(mistake)
        sys.exit(mistake.exit_code)
    sys.exit(code)


def _show(mistake: typer.BadParameter) -> None:
    """A sentence and a hint; a command line without a command shows the whole help instead."""
    from scaffolder.console import Console

    context = mistake.ctx
    if context is not None and mistake.message == context.get_help():
        mistake.show()
        return
    # Without a context it is an option whose value is missing, of the command that was named.
    known = getattr(typer.main.get_command(app), "commands", {})
    named = [word for word in sys.argv[1:2] if word in known]
    command = context.command_path if context else " ".join(["scaffolder", *named])
    sentence = " ".join(mistake.format_message().split()).removesuffix(".")
    Console().error(BadInput(sentence, hint=f"{command} --help"))


INTERRUPTED = Interrupted(
    "interrupted, and nothing is left of the project", hint="run the same command again"
)
