"""One request as a receiver got it."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from standardwebhooks import Webhook


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in; header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float  # time.time()
    connection: int  # which connection brought it, from 1

    @property
    def webhook_id(self) -> str:
        """The message id."""
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    def verify(self, secret: str) -> Any:
        """The body, parsed by the official library; raises its error for a bad signature."""
        return Webhook(secret).verify(self.body, self.headers)


async def read_request(reader: asyncio.StreamReader, connection: int) -> Received | None:
    """The next request on a connection; None when it has ended."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines if x)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body, time.time(), connection)
