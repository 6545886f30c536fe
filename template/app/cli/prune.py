"""`prune`: what retention allows to go, now instead of when the relay gets to it."""

from typing import Annotated

import typer

from app.cli.options import Json
from app.cli.runtime import open_database, settings_of_command, wait_for


def prune(
    seconds: Annotated[
        float | None,
        typer.Option(metavar="N", min=0, help="Stop then; the next run goes on."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete what is past its retention.

    It deletes in small batches, and never a parked message.
    """
    wait_for(_prune(seconds, as_json=as_json))


async def _prune(seconds: float | None, *, as_json: bool) -> None:
    from app.cli.output import print_record
    from app.outbox.prune import prune as prune_database

    settings = settings_of_command()
    async with open_database(settings) as database:
        report = await prune_database(database, settings, seconds=seconds)
    print_record(report, as_json=as_json)
