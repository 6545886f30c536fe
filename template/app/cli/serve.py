"""`serve`: the HTTP server; on SQLite it relays as well. Also the child that `dev` supervises.

Invariant: what can be wrong before the first request (port, schema, secret key, a second server on
one SQLite file) is a sentence and exit code 1 here, not a traceback out of the server's start-up.
No proxy header is believed; put the public address into APP_PUBLIC_URL.
"""

import errno
import os
import signal
import socket
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import Port
from app.cli.runtime import open_database, settings_of_command, wait_for
from app.config import Settings, read_environment
from app.errors import AppError

if TYPE_CHECKING:
    from app.db.engine import Database

Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")]
BACKLOG = 2048


def serve(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Serve HTTP, and on SQLite relay as well.

    On PostgreSQL run `relay` beside it, any number of both.
    """
    settings = settings_of_command()
    with only_server(settings), listen(host, port) as listener:
        wait_for(_prepare(settings))
        _run(settings, listener, with_relay=settings.is_sqlite)


def serve_for_development(
    port: Port = 8000, first: Annotated[bool, typer.Option("--first")] = False
) -> None:
    """Internal: the child of `dev`."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    settings = settings_of_command()
    if "APP_PUBLIC_URL" not in read_environment():
        settings = replace(settings, public_url=f"http://127.0.0.1:{port}")
    with only_server(settings), listen("127.0.0.1", port) as listener:
        banner = wait_for(_prepare_for_development(settings, first=first))
        _run(settings, listener, with_relay=True, banner=banner)


def _end_with(parent: int) -> None:
    """Stop when the supervisor is gone: nobody else would ever stop this process."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `AppError` naming the address and what is wrong with it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        hint = "choose another --port" if error.errno == errno.EADDRINUSE else "choose --host"
        raise AppError(f"can't listen on {host}:{port}: {error.strerror}", hint=hint) from None
    return listener


def only_server(settings: Settings) -> AbstractContextManager[None]:
    """Hold the lock of a SQLite file. Raises `DatabaseHeld` if another process has it."""
    from app.db.lock import sole_relay

    return sole_relay(settings, "a server")


async def _prepare(settings: Settings) -> None:
    async with open_database(settings) as database:
        await _check_key(database, settings)


async def _check_key(database: "Database", settings: Settings) -> None:
    from app.cipher import Cipher, check_sentinel

    await check_sentinel(database, Cipher(settings.secret_key))


async def _prepare_for_development(settings: Settings, *, first: bool) -> str:
    """Migrate at the first start; the lines to show once the server answers."""
    from app.cli.runtime import require_schema
    from app.db.migrate import upgrade
    from app.features import present

    async with open_database(settings, any_schema=True) as database:
        # Not at later starts: a half-written migration must not run because its file was saved.
        if first:
            await upgrade(database)
        await require_schema(database)
        await _check_key(database, settings)
    lines = [f"serving    {settings.public_url}", f"API docs   {settings.public_url}/docs"]
    if first and "admin" in present():
        from app.cli.admin import new_link

        lines.append(f"sign in    {await new_link(settings)}  (once, within 10 minutes)")
    return "\n".join(lines)


def _run(
    settings: Settings, listener: socket.socket, *, with_relay: bool, banner: str = ""
) -> None:
    import uvicorn

    from app.wiring import create_app

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if banner and self.started:
                print(banner, flush=True)

    config = uvicorn.Config(
        create_app(settings, with_relay=with_relay),
        log_config=None,  # the application sets up logging, requests are logged there
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=round(settings.shutdown_seconds),
    )
    server = Server(config)
    # uvicorn raises the signal that stopped it once more at the end: a stop that was asked for
    # is no failure, so nothing is left to do then and the exit code is 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    server.run(sockets=[listener])
    if not server.started:
        raise AppError("the server did not start", hint="the lines above say why")
