"""`make demo`: the whole path on one machine, with the real command line and real sockets.

Generates an application into a temporary folder, starts it on the embedded database, lets two
local receivers subscribe, places one order and shows: the signed webhook arrives and verifies; the
receiver that answers 404 gets its message parked; once it is mended, a retry by hand delivers the
message under the same id. Everything is stopped and removed at the end.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from standardwebhooks import Webhook

WAIT_SECONDS = 60.0


class DemoFailed(Exception):
    """A step of the demo did not show what it promises."""


class Receiver:
    """An HTTP receiver on loopback; answers `status` and keeps what it got."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.requests: Queue[tuple[dict[str, str], bytes]] = Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver.status
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()
                if status < 300:
                    receiver.requests.put((dict(self.headers.items()), body))

            def log_message(self, *_: object) -> None:
                """Say nothing: the demo prints what matters."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}/webhooks"

    def accepted(self, secret: str) -> tuple[str, dict[str, Any]]:
        """The next accepted request, verified with the official library: its id and its body."""
        try:
            headers, body = self.requests.get(timeout=WAIT_SECONDS)
        except Empty:
            raise DemoFailed(f"no webhook arrived within {WAIT_SECONDS:.0f} s") from None
        lowered = {name.lower(): value for name, value in headers.items()}
        return lowered["webhook-id"], Webhook(secret).verify(body.decode(), lowered)


class App:
    """The generated application: its command, and its HTTP API."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / ".venv" / "bin" / folder.name
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("APP_")}
        self.port = free_port()

    def run(self, *arguments: str) -> str:
        """One command of the application; its stdout."""
        done = subprocess.run(
            [str(self.command), *arguments],
            check=False,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )
        if done.returncode != 0:
            raise DemoFailed(f"{self.folder.name} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def call(self, method: str, path: str, key: str = "", body: object = None) -> Any:  # noqa: ANN401
        """One request to the running application; the JSON of its answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json", "authorization": f"Bearer {key}"},
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    def is_ready(self) -> bool:
        """Whether `/health/ready` answers 200."""
        try:
            self.call("GET", "/health/ready")
        except (urllib.error.URLError, OSError):
            return False
        return True

    @contextlib.contextmanager
    def development_server(self) -> Iterator[None]:
        """`dev`, from ready to stopped."""
        log = self.folder / "dev.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(self.command), "dev", "--port", str(self.port)],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
            )
            try:
                wait_until(self.is_ready, f"dev is not ready:\n{log.read_text()}")
                yield
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    process.kill()


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    """Wait for a condition, at most WAIT_SECONDS."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailed(otherwise)
        time.sleep(0.1)


def say(text: str) -> None:
    """One line of the demo."""
    print(text, flush=True)


def generate(parent: Path) -> App:
    """A new application, made by the real command line and installed."""
    say("1. scaffolder new demo-app (generates, installs; the slow part is downloading)")
    subprocess.run(
        [sys.executable, "-m", "scaffolder", "new", "demo-app", "--yes"], cwd=parent, check=True
    )
    return App(parent / "demo-app")


def show(app: App) -> None:
    """The story, one line per fact."""
    healthy, broken = Receiver(status=204), Receiver(status=404)
    say("2. demo-app dev (embedded database, API and relay in one process)")
    with app.development_server():
        key = app.run("keys", "create", "--scope", "admin")
        secrets = {
            receiver: json.loads(
                app.run("endpoints", "add", receiver.url, "--types", "order.*", "--json")
            )["secret"]
            for receiver in (healthy, broken)
        }
        order = app.call("POST", "/orders", key, {"customer": "Ada", "total": "42.00"})
        say(f"3. order created: {order['id']}, {order['total']} for {order['customer']}")
        _, body = healthy.accepted(secrets[healthy])
        say(f"4. webhook verified: {body['type']} with order {body['data']['id']}")
        message = wait_for_parked(app)
        say(f"5. parked: message {message['id']} ({message['parked_reason']}, receiver said 404)")
        broken.status = 204
        app.run("retry", message["id"])
        say(f"6. retried: message {message['id']}, by hand, after the receiver was mended")
        webhook_id, _ = broken.accepted(secrets[broken])
        if webhook_id != message["id"]:
            raise DemoFailed(f"webhook-id {webhook_id} is not the message {message['id']}")
        wait_until(lambda: status_of(app, key, webhook_id) == "sent", "the message is not sent")
        say(f"7. delivered: message {webhook_id}, same id, signature verified")


def wait_for_parked(app: App) -> dict[str, Any]:
    """The one parked message, once there is one."""
    found: list[dict[str, Any]] = []

    def parked() -> bool:
        found[:] = json.loads(app.run("parked", "--json"))["items"]
        return len(found) == 1

    wait_until(parked, "no message was parked")
    return found[0]


def status_of(app: App, key: str, message_id: str) -> str:
    """Where a message stands, asked over HTTP."""
    return str(app.call("GET", f"/api/messages/{message_id}", key)["status"])


def main() -> int:
    """Run the demo; 0 when every step showed what it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the generated folder")
    keep = parser.parse_args().keep
    parent = Path(tempfile.mkdtemp(prefix="scaffolder-demo-"))
    started = time.monotonic()
    try:
        show(generate(parent))
    except (DemoFailed, subprocess.SubprocessError) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    finally:
        if not keep:
            shutil.rmtree(parent, ignore_errors=True)
    left = f"the folder is {parent}" if keep else "the folder is removed"
    say(f"done in {time.monotonic() - started:.0f} s; {left}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
