"""Turns reports into what a person reads and what a program reads."""

from scaffolder.commands.new import Report
from scaffolder.console import Console
from scaffolder.upgrade import versions


def show_new(report: Report, console: Console) -> None:
    """Show a made project: what is left to do, the same run as a command, the next steps."""
    if report.dry_run:
        for file in report.files:
            console.data(file)
        console.say(f"{len(report.files)} files would be written to {report.path}")
        console.say(f"Run it with: {report.command}")
        return
    name = report.answers.project_name
    if report.failure is not None:
        console.say()
        console.heading(f"Installing failed at: {report.failure.title}. What it said last:")
        for line in report.failure.output.strip().splitlines()[-12:]:
            console.say(f"  {line}")
        console.heading(f"The project is complete. In {report.path} run what is left:")
        for command in report.failure.commands:
            console.say(f"  {command}")
    console.say()
    console.heading(f"{name} is in {report.path}, from template {report.template_version}")
    console.say(f"The same without questions: {report.command}")
    if warning := versions.warning(report.template_version, "--template-version"):
        console.note(warning)
    console.heading("Next:")
    for command in report.next_commands:
        console.say(f"  {command}{_remark(command, report)}")


def _remark(command: str, report: Report) -> str:
    """What to know about a next command; a shell comment, so the whole line can be copied."""
    if command.endswith(" dev"):
        return f"  # until Ctrl-C; all else in a second terminal, in {report.path}"
    program, found, _ = command.partition(" endpoints add ")
    return f"  # what arrives there is shown by: {program} listen" if found else ""


def new_as_json(report: Report) -> dict[str, object]:
    """Return the object that `--json` prints."""
    failure = report.failure
    return {
        "project": report.answers.project_name,
        "path": str(report.path),
        "template_version": report.template_version,
        "database": report.answers.database,
        "features": sorted(report.answers.features),
        "dry_run": report.dry_run,
        "files": list(report.files),
        "committed": report.committed,
        "installed": report.installed,
        "failed_commands": [] if failure is None else list(failure.commands),
        "command": report.command,
        "next": list(report.next_commands),
    }
