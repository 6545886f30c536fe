"""`check`: everything that can be wrong before the first request, said at once.

The single checks stand in `checks.py`; this module prints what they found.
"""

import typer

from app.cli.options import Json


def check(as_json: Json = False) -> None:
    """Check settings, database, schema, clock and secrets.

    Warnings name the command that helps; exit 1 only if there is an error.
    """
    from app.cli.checks import Level, find_all
    from app.cli.output import inert, print_json
    from app.cli.runtime import wait_for
    from app.program import typed

    findings = wait_for(find_all())
    errors = sum(1 for finding in findings if finding.level is Level.ERROR)
    warnings = sum(1 for finding in findings if finding.level is Level.WARNING)
    if as_json:
        print_json({"items": findings, "errors": errors, "warnings": warnings})
    else:
        for finding in findings:
            print(f"{finding.level:<8} {finding.check:<14} {inert(finding.message)}")
            if finding.hint:
                print(f"{'':<8} {'':<14} hint: {inert(typed(finding.hint))}")
        print(f"errors: {errors}, warnings: {warnings}", flush=True)
    if errors:
        raise typer.Exit(1)
