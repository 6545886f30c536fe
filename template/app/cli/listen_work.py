"""The receiver behind `listen`: verifies each request, prints it, answers as it was told.

Invariant: it listens on loopback only, stores nothing, and what it prints can't move the cursor:
anybody on this machine may send to it.
"""

import signal
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct

from app.cli.output import inert, note
from app.errors import AppError, UsageError
from app.outbox.event import BODY_LIMIT_BYTES
from app.webhooks.secrets import InvalidSecretError
from app.webhooks.verify import VerificationError, Verifier

LARGEST_BODY = 2 * BODY_LIMIT_BYTES
WAIT_SECONDS = 30.0  # for a sender that stops in the middle


class Arrival(Struct, frozen=True, kw_only=True):
    """One request as it came in."""

    webhook_id: str
    type: str
    attempt: str
    verified: bool | None  # null: there was no secret to verify with
    problem: str | None
    again: bool  # this id has arrived before
    answered: int
    headers: dict[str, str]
    body: Any


class Receiver(ThreadingHTTPServer):
    """What is the same for all requests."""

    daemon_threads = True

    def __init__(self, port: int, verifier: Verifier | None, answer: int, *, as_json: bool) -> None:
        super().__init__(("127.0.0.1", port), _Request)
        self.verifier, self.answer, self.as_json = verifier, answer, as_json
        self.seen: set[str] = set()
        self.printing = Lock()

    def arrived(self, headers: dict[str, str], body: bytes) -> int:
        """Verify and print; the status to answer with."""
        problem = self._problem(headers, body)
        decoded = _decoded(body)
        webhook_id = headers.get("webhook-id", "")
        with self.printing:
            arrival = Arrival(
                webhook_id=webhook_id,
                type=str(decoded.get("type", "")) if isinstance(decoded, dict) else "",
                attempt=headers.get("webhook-attempt", ""),
                verified=None if self.verifier is None else problem is None,
                problem=problem,
                again=webhook_id in self.seen,
                answered=self.answer if problem is None else 401,
                headers=headers,
                body=decoded,
            )
            self.seen.add(webhook_id)
            _show(arrival, as_json=self.as_json)
        return arrival.answered

    def _problem(self, headers: dict[str, str], body: bytes) -> str | None:
        if self.verifier is None:
            return None
        try:
            self.verifier.verify(headers, body)
        except VerificationError as error:
            return f"{error.problem}: {error.message}"
        return None


class _Request(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"
    timeout = WAIT_SECONDS

    def do_POST(self) -> None:
        """Called by the server for each POST."""
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit() and int(length[:12]) <= LARGEST_BODY):
            self.close_connection = True
            self._answer(411 if not length else 413)
            return
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._answer(self.server.arrived(headers, body))

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Each request is printed already."""


def receive(port: int, secrets: list[str], answer: int, *, as_json: bool) -> None:
    """Receive until interrupted or told to end."""
    try:
        verifier = Verifier(secrets) if secrets else None
    except InvalidSecretError as error:
        raise UsageError(f"--secret: {error.message}", hint="endpoints add prints it") from None
    try:
        server = Receiver(port, verifier, answer, as_json=as_json)
    except OSError as error:
        raise AppError(
            f"port {port} of 127.0.0.1 can't be listened on: {error.strerror}",
            hint="choose another one with --port",
        ) from None
    if verifier is None:
        note("nothing is verified: there is no --secret")
    note(f"listening on http://127.0.0.1:{server.server_port}/")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")


def _show(arrival: Arrival, *, as_json: bool) -> None:
    if as_json:
        print(inert(msgspec.json.encode(arrival).decode()), flush=True)
        return
    match arrival.verified:
        case None:
            verdict = "not verified"
        case True:
            verdict = "verified"
        case False:
            verdict = f"REFUSED {arrival.problem}"
    words = (
        arrival.type or "?",
        arrival.webhook_id or "no id",
        f"attempt {arrival.attempt or '?'}",
    )
    again = ", again" if arrival.again else ""
    print(inert(f"{'  '.join(words)}{again}  {verdict}  -> {arrival.answered}"), flush=True)
    body = arrival.body
    shown = (
        body if isinstance(body, str) else msgspec.json.format(msgspec.json.encode(body)).decode()
    )
    print(inert(shown), flush=True)
