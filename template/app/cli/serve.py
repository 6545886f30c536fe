"""`serve`: the HTTP server; on SQLite it relays as well. Also the child that `dev` supervises.

Invariant: what can be wrong before the first request (port, schema, secret key, a second server on
one SQLite file) is a sentence and exit code 1 here, not a traceback out of the server's start-up.
Behind a proxy, put the public address into APP_PUBLIC_URL.
"""

import errno
import os
import signal
import socket
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Annotated

import typer

from app.cli.options import Port
from app.cli.runtime import (
    check_ready,
    open_database,
    require_schema,
    settings_of_command,
    wait_for,
)
from app.config import Settings, read_environment
from app.errors import AppError

Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")]
BACKLOG = 2048


def serve(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Serve HTTP, and on SQLite relay as well.

    On PostgreSQL run `relay` beside it, any number of both.
    """
    settings = settings_of_command()
    with listen(host, port) as listener, only_server(settings):
        wait_for(check_ready(settings))
        _run(settings, listener, with_relay=settings.is_sqlite)


def _run(settings: Settings, listener: socket.socket, *, with_relay: bool) -> None:
    import structlog

    from app.cli.server import run_server

    host, port = listener.getsockname()[:2]

    def started() -> None:
        log = structlog.get_logger(__name__)
        log.info("listening", host=host, port=port, relay=with_relay)

    run_server(settings, listener, started, with_relay=with_relay)


def serve_for_development(
    port: Port = 8000, first: Annotated[bool, typer.Option("--first")] = False
) -> None:
    """Internal: the child of `dev`."""
    from app.cli.admin import local_url

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    settings = settings_of_command()
    if "APP_PUBLIC_URL" not in read_environment():
        settings = replace(settings, public_url=local_url(port))
    with listen("127.0.0.1", port) as listener, only_server(settings):
        banner = wait_for(_prepare_for_development(settings, port, first=first))
        from app.cli.server import run_server

        run_server(settings, listener, lambda: print(banner, flush=True), with_relay=True)


def _end_with(parent: int) -> None:
    """Stop when the supervisor is gone: nobody else would ever stop this process."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def listen(
    host: str, port: int, *, host_from: str = "--host", port_from: str = "--port"
) -> socket.socket:
    """A listening socket. Raises `AppError` naming the address, what is wrong with it, and where
    the wrong part was given.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        port_is_wrong = error.errno in (errno.EADDRINUSE, errno.EACCES)
        hint = f"choose another {port_from if port_is_wrong else host_from}"
        raise AppError(f"can't listen on {host}:{port}: {error.strerror}", hint=hint) from None
    return listener


def only_server(settings: Settings) -> AbstractContextManager[None]:
    """Hold the lock of a SQLite file. Raises `DatabaseHeld` if another process has it."""
    from app.db.lock import sole_relay

    return sole_relay(settings, "a server")


async def _prepare_for_development(settings: Settings, port: int, *, first: bool) -> str:
    """Migrate at the first start; the lines to show once the server answers."""
    from app.cipher import Cipher, check_sentinel
    from app.cli.admin import has_pages, link_command, new_link
    from app.db.migrate import upgrade

    async with open_database(settings, any_schema=True) as database:
        # Not at later starts: a half-written migration must not run because its file was saved.
        if first:
            await upgrade(database)
        await require_schema(database)
        await check_sentinel(database, Cipher.of(settings))
        lines = [f"serving    {settings.public_url}", f"API docs   {settings.public_url}/docs"]
        if first and has_pages():
            link = await new_link(database, settings)
            lines.append(f"sign in    {link}  (once, within 10 minutes)")
            lines.append(f"once more  {link_command(settings, port)}")
    lines.append("Ctrl-C stops; a change in app/ or .env starts it anew")
    return "\n".join(lines)
