"""A receiver of webhooks in one file, to try things out and to copy from. Standard library only.

    WEBHOOK_SECRET=whsec_... python3 docs/receiver.py [PORT]

It verifies each request and acts on each message once, however often it arrives. `act` is the place
for your own work; everything else stays as it is. docs/receiving.md explains the rules.
"""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOLERANCE_SECONDS = 300
LARGEST_BODY = 1_048_576
DATABASE = Path("data/receiver.db")
HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


def act(db: sqlite3.Connection, event: dict[str, Any]) -> None:
    """Your work. It commits together with the id; if it raises, neither is stored."""
    print(f"acting on {event['type']}: {event['data']}", flush=True)


def genuine(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Is this signed with our secret, a moment ago? `body` is as it came, byte for byte."""
    message_id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
    if not timestamp.isdecimal() or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    # Several signatures while the secret is being replaced: one that fits is enough.
    given = headers["webhook-signature"].split(" ")
    return any(hmac.compare_digest(expected.encode(), one.encode()) for one in given)


def receive(
    db: sqlite3.Connection, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> int:
    """Answer with this status. 204 also to a repetition: it has been dealt with."""
    if not genuine(secret, headers, body, now):
        return 401
    with db:  # one transaction for the id and the work
        new = db.execute(
            "INSERT INTO seen (webhook_id) VALUES (?) ON CONFLICT DO NOTHING",
            (headers["webhook-id"],),
        ).rowcount
        if new:
            act(db, json.loads(body))
    return 204


def open_database(path: Path) -> sqlite3.Connection:
    """The database that remembers which messages have been dealt with."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    db = sqlite3.connect(path, timeout=10)
    db.execute("CREATE TABLE IF NOT EXISTS seen (webhook_id TEXT PRIMARY KEY)")
    return db


class Receiver(BaseHTTPRequestHandler):
    """One request: read it whole, receive it, answer."""

    def do_POST(self) -> None:
        """Called by the server for each POST."""
        try:
            status = self._status()
        except (TypeError, ValueError):  # a header that is missing or no number, a body not JSON
            status = 400
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def _status(self) -> int:
        length = int(self.headers["content-length"])
        if not 0 <= length <= LARGEST_BODY:
            return 413
        body = self.rfile.read(length)
        headers = {name: str(self.headers[name]) for name in HEADERS}
        with closing(open_database(DATABASE)) as db:
            return receive(db, os.environ["WEBHOOK_SECRET"], headers, body, time.time())


def main() -> None:
    """Listen on loopback until interrupted."""
    if not os.environ.get("WEBHOOK_SECRET"):
        sys.exit("set WEBHOOK_SECRET to the secret that `endpoints add` printed")
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
