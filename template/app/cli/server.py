"""Runs the application under uvicorn for `serve` and `dev`; loaded when one of them runs.

Invariant: a stop that was asked for (SIGTERM, SIGINT) lets requests and deliveries end and exits 0.
No proxy header is believed: the caller's address is the connection's, whatever a header says.
"""

import signal
import socket
from collections.abc import Callable

import uvicorn

from app.config import Settings
from app.errors import AppError
from app.memory import collect_seldom
from app.wiring import create_app


class Server(uvicorn.Server):
    """uvicorn's server, which says when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; if that worked, tell."""
        await super().startup(sockets)
        if self.started:
            collect_seldom()
            self._tell()


def run_server(
    settings: Settings, listener: socket.socket, started: Callable[[], None], *, with_relay: bool
) -> None:
    """Serve until stopped. Raises `AppError` if it could not start."""
    config = uvicorn.Config(
        create_app(settings, with_relay=with_relay),
        log_config=None,  # create_app sets up logging, and requests are logged there
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=round(settings.shutdown_seconds),
    )
    server = Server(config, started)
    # uvicorn raises the signal that stopped it once more at the end; it must not kill us then.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    server.run(sockets=[listener])
    if not server.started:
        raise AppError("the server did not start", hint="the lines above say why")
