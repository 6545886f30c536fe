"""`relay`: a process that only claims, delivers and settles. Any number may run on PostgreSQL.

Invariant: the first SIGTERM or SIGINT lets requests in flight end and settles them; a second one
cuts, and then the exit code is 1: what was claimed comes back when its lease ends.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import Json
from app.cli.runtime import open_database, settings_of_command, wait_for
from app.config import Settings
from app.errors import UsageError

if TYPE_CHECKING:
    from app.relay.relay import Counts

Once = Annotated[bool, typer.Option("--once", help="One round, then end.")]
Drain = Annotated[bool, typer.Option("--drain", help="Until nothing is due, then end.")]
Concurrency = Annotated[
    int | None, typer.Option(min=1, help="Requests in flight; default: APP_RELAY_CONCURRENCY.")
]


def relay(
    once: Once = False,
    drain: Drain = False,
    concurrency: Concurrency = None,
    as_json: Json = False,
) -> None:
    """Deliver what is due, until stopped.

    On SQLite the server relays itself, so there this runs only while no server does.
    """
    from app.cli.output import print_record
    from app.db.lock import sole_relay

    if once and drain:
        raise UsageError("--once and --drain exclude each other")
    settings = settings_of_command()
    if concurrency is not None:
        settings = replace(settings, relay_concurrency=concurrency)
    with sole_relay(settings, "a relay"):
        counts = wait_for(_relay(settings, once=once, drain=drain))
    print_record(counts, as_json=as_json)


async def _relay(settings: Settings, *, once: bool, drain: bool) -> "Counts":
    from app.wiring import build

    async with open_database(settings):
        pass  # a schema or a key that is wrong is said before anything is claimed
    components = build(settings)
    runner = components.relay()
    try:
        with _stopping(runner):
            if once:
                return await runner.run_once()
            return await (runner.drain() if drain else runner.run())
    finally:
        await components.close()
