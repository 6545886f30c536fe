"""`relay`: a process that only claims, delivers and settles. Any number may run on PostgreSQL.

Invariant: the first SIGTERM or SIGINT lets requests in flight end and settles them; a second one
cuts, and then the exit code is 1: what was claimed comes back when its lease ends.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import Json
from app.cli.runtime import check_ready, explained, settings_of_command, wait_long_for
from app.config import Settings, variable
from app.errors import UsageError
from app.memory import collect_seldom

if TYPE_CHECKING:
    from app.relay.counts import Counts
    from app.relay.relay import Relay
    from app.wiring import Components

Once = Annotated[bool, typer.Option("--once", help="One round, then end.")]
Drain = Annotated[bool, typer.Option("--drain", help="Until nothing is due, then end.")]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Requests in flight; default: APP_RELAY_CONCURRENCY."),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=1, max=65535, metavar="N",
        help="Serve /metrics there; default: APP_RELAY_METRICS_PORT.",
    ),
]  # fmt: skip


def relay(
    once: Once = False,
    drain: Drain = False,
    concurrency: Concurrency = None,
    metrics_port: MetricsPort = None,
    as_json: Json = False,
) -> None:
    """Deliver what is due, until stopped.

    On SQLite the server relays itself, so there this runs only while no server does.
    """
    from app.cli.output import print_record
    from app.db.lock import sole_relay

    if once and drain:
        raise UsageError("--once and --drain exclude each other", hint="leave one out")
    settings = settings_of_command()
    if concurrency is not None:
        settings = replace(settings, relay_concurrency=concurrency)
    if metrics_port is not None:
        settings = replace(settings, relay_metrics_port=metrics_port)
    with sole_relay(settings, "a relay"):
        counts = wait_long_for(_relay(settings, once=once, drain=drain))
    print_record(counts, as_json=as_json)


async def _relay(settings: Settings, *, once: bool, drain: bool) -> "Counts":
    from app.observe.logging import configure_logging
    from app.wiring import build

    await check_ready(settings)
    configure_logging(settings)
    components = build(settings)
    try:
        runner = components.relay()
        with explained(settings), _stopping(runner):
            async with _metrics(components):
                return await _run(runner, once=once, drain=drain)
    finally:
        await components.close()


async def _run(runner: "Relay", *, once: bool, drain: bool) -> "Counts":
    collect_seldom()
    if once:
        return await runner.run_once()
    return await (runner.drain() if drain else runner.run())


def _metrics(components: "Components") -> AbstractAsyncContextManager[None]:
    from app.cli.serve import listen
    from app.relay.exposition import exposed

    settings = components.settings
    if settings.relay_metrics_port is None:
        return nullcontext()
    listener = listen(
        settings.relay_metrics_host,
        settings.relay_metrics_port,
        host_from=variable("relay_metrics_host"),
        port_from="--metrics-port",
    )
    return exposed(components.registry, listener)


@contextmanager
def _stopping(runner: "Relay") -> Iterator[None]:
    loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked:
            # A real cut: whatever hangs now, say a connection, must not keep the process alive.
            print("cut: claims come back when their lease ends", file=sys.stderr, flush=True)
            os._exit(1)
        asked = True
        print("stopping; a second signal cuts", file=sys.stderr, flush=True)
        runner.stop()

    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
