"""Turns the reports of upgrade, diff and status into what a person and a program read."""

import shlex

from scaffolder import install
from scaffolder.commands import diff, status, upgrade
from scaffolder.console import Console
from scaffolder.upgrade import versions
from scaffolder.upgrade.changelog import News
from scaffolder.upgrade.journal import interruption
from scaffolder.upgrade.plumbing import shown
from scaffolder.upgrade.schema import is_migration
from scaffolder.upgrade.verdicts import FileVerdict, Verdict
from scaffolder.upgrade.worktree import UNDO


def show_upgrade(report: upgrade.Report, console: Console) -> None:
    """Show the verdict on every file, then what it means and how to go back."""
    step = report.step
    if report.up_to_date:
        console.done(f"up to date: the project has template {step.new}, as answered")
        return
    if report.resumed:
        console.note("an upgrade was interrupted here; it is finished now")
    for verdict in report.verdicts:
        console.data(_line(verdict))
    _show_news(report.news, console)
    for note in report.notes:
        console.note(note)
    if step.is_change and (warning := versions.warning(step.new, "--to")):
        console.note(warning)
    console.say()
    console.heading(_outcome(report))
    for line in _next(report):
        console.say(f"  {line}")


def show_aborted(report: upgrade.Aborted, console: Console) -> None:
    """Show that an upgrade was taken back."""
    for path in report.left:
        console.note(f"{path} was changed after the interruption, and stays as it is")
    console.done(f"the upgrade from {report.step.old} to {report.step.new} is taken back")


def show_diff(report: diff.Report, console: Console) -> None:
    """Print the patch."""
    if not report.patch:
        console.done(f"up to date: the project has template {report.step.new}, as answered")
        return
    console.bytes(report.patch)
    for verdict in report.conflicts:
        console.note(_line(verdict))


def show_status(report: status.Report, console: Console) -> None:
    """Show where a project stands."""
    console.data(f"project   {report.path}")
    console.data(f"template  {report.version}")
    console.data(f"newest    {report.newest}")
    for name, value in report.answers.items():
        shown = str(value).lower() if isinstance(value, bool) else value
        console.data(f"answer    {name}: {shown}")
    if report.edits is not None:
        for path in report.edits.edited:
            console.data(f"edited    {path}")
        for path in report.edits.deleted:
            console.data(f"deleted   {path}")
    for switch in report.open_switches:
        console.data(f"switch    {switch.name}: {switch.text}")
    if report.unknown:
        console.note(f"edits are not known: {report.unknown}")
    if report.interrupted is not None:
        interrupted = interruption(report.interrupted)
        console.note(interrupted.message)
        console.say(f"  {interrupted.hint}")
    elif report.newer:
        console.say(f"A newer template is here: {_command('diff')}, then {_command('upgrade')}")
    else:
        console.say("No newer template in this tool")


def upgrade_as_json(report: upgrade.Report) -> dict[str, object]:
    """Return the object that `upgrade --json` prints."""
    return {
        "path": str(report.path),
        "from": report.step.old,
        "to": report.step.new,
        "dry_run": report.dry_run,
        "branch": report.branch,
        "resumed": report.resumed,
        "up_to_date": report.up_to_date,
        "conflicts": [each.path for each in report.conflicts],
        "files": [
            {"path": each.path, "verdict": str(each.verdict), "detail": each.detail}
            for each in report.verdicts
        ],
        "notes": list(report.notes),
        "releases": [
            {"version": each.version, "changes": list(each.lines)} for each in report.news
        ],
        "undo": UNDO if report.applied else None,
    }


def status_as_json(report: status.Report) -> dict[str, object]:
    """Return the object that `status --json` prints."""
    edits = report.edits
    return {
        "path": str(report.path),
        "template_version": report.version,
        "newest_version": report.newest,
        "upgrade_available": report.newer,
        "interrupted": report.interrupted is not None,
        "answers": report.answers,
        "edited": None if edits is None else list(edits.edited),
        "deleted": None if edits is None else list(edits.deleted),
        "unknown": report.unknown or None,
        "switches": [
            {"name": each.name, "taken": each.taken, "text": each.text} for each in report.switches
        ],
    }


def _line(verdict: FileVerdict) -> str:
    detail = f"  ({verdict.detail})" if verdict.detail else ""
    return f"{verdict.verdict:<12}  {shown(verdict.path)}{detail}"


def _show_news(news: tuple[News, ...], console: Console) -> None:
    for release in news:
        console.heading(f"Template {release.version}:")
        for line in release.lines:
            console.say(f"  {line}")


def _outcome(report: upgrade.Report) -> str:
    step, count = report.step, len(report.conflicts)
    what = f"template {step.old} to {step.new}" if step.is_change else f"template {step.new}"
    files = f"{len(report.verdicts)} file{'s' if len(report.verdicts) > 1 else ''}"
    clean = "no conflict" if not count else f"{count} conflict{'s' if count > 1 else ''}"
    if report.dry_run:
        return f"Would change {files} ({what}), {clean}; nothing was touched"
    if report.branch and count:
        return f"Nothing was done: {clean} ({what}), and a branch holds no conflicts"
    place = f"on branch {report.branch}" if report.branch else "in work tree and index"
    return f"{files} changed {place} ({what}), {clean}"


def _next(report: upgrade.Report) -> tuple[str, ...]:
    if report.dry_run:
        return ()
    if report.branch:
        name = shlex.quote(report.branch)
        if report.conflicts:
            return (f"git switch -c {name} && {_command('upgrade')}",)
        return (f"git diff HEAD...{name}", f"git merge {name}")
    undo = f"undo it with: {UNDO}"
    if report.conflicts:
        return ("settle the conflicts and `git add` each of these files, then: git commit", undo)
    return ("look at it with: git diff --staged, then: git commit", undo, *_to_run(report))


def _to_run(report: upgrade.Report) -> tuple[str, ...]:
    """Return the commands that bring the machine up to what the files now say."""
    changed = {each.path for each in report.verdicts}
    commands = []
    if changed & {"pyproject.toml", "constraints.txt"}:
        commands.append(f"dependencies changed: {install.steps(report.path)[-1].typed}")
    if any(is_migration(each.path) for each in report.verdicts if each.verdict is Verdict.ADDED):
        commands.append("there is a new migration: `db upgrade` of your project runs it")
    return tuple(commands)


def _command(name: str) -> str:
    return f"scaffolder {name}"
