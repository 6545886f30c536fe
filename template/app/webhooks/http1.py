"""One HTTP/1.1 connection that carries one request at a time: the sender's wire.

Invariant: the status line decides. Once it is complete, nothing that happens to the rest of the
answer (headers that stall, a broken chunk, a body that never ends) turns it into another outcome;
the rest only gets `REST_SECONDS`. A request is written once and never again by itself. The bytes
are parsed by llhttp in its strict mode; what it refuses before a status is a protocol error.
"""

import asyncio
import socket
from typing import Final, cast

import httptools

from app.outbox.message import ErrorKind, Response
from app.webhooks.outcomes import SendFailed

SUCCESS_BODY_BYTES: Final = 2 * 1024  # kept of the answer's body
FAILURE_BODY_BYTES: Final = 10 * 1024
BODY_READ_BYTES: Final = 64 * 1024  # read to keep the connection usable; beyond it we hang up
HEAD_BYTES: Final = 8 * 1024  # kept of the header lines
HEAD_READ_BYTES: Final = 64 * 1024
REST_SECONDS: Final = 1.0


class Connection(asyncio.Protocol):
    """A connection; `exchange` sends a request and its future ends with the answer."""

    def __init__(self, place: str, wire: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._place, self._wire = place, wire
        self._transport: asyncio.Transport  # over `_raw`, which is the same without TLS
        self._answer: asyncio.Future[Response] | None = None
        self._deadline = self._timer_at = self._total = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._in_step = True
        self._start_over()

    def _start_over(self) -> None:
        self._status = 0
        self._reason: bytes | None = None  # `_reason_read`: in these bytes
        self._reason_read = False
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        self._head_size = self._head_read = self._body_size = 0
        self._head_done = False

    def exchange(self, request: bytes, until: float, total: float) -> "asyncio.Future[Response]":
        """The answer or `SendFailed`, by `until` (loop time); `total` is only for the text."""
        self._start_over()
        self._answer, self._total = self._loop.create_future(), total
        self._expire_at(until)
        self._transport.write(request)
        return self._answer

    def in_step(self) -> bool:
        """Whether the next answer would be that of the next request, as far as is known."""
        unsent = self._transport.get_write_buffer_size() or self._raw.get_write_buffer_size()
        return self._in_step and not unsent and not self._transport.is_closing()

    def is_usable(self) -> bool:
        """The same, after a look at the wire."""
        try:
            self._wire.recv(1, socket.MSG_PEEK)  # what is there answers no request, or is the end
            return False
        except OSError as error:
            return isinstance(error, BlockingIOError) and self.in_step()

    def abort(self) -> None:
        """Close at once."""
        self._in_step = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio.Protocol."""
        self._raw = self._transport = cast(asyncio.Transport, transport)  # uvloop's inherits not

    def secured(self, transport: asyncio.Transport | None) -> None:
        """From now on everything goes through this TLS transport."""
        if transport is None:
            raise ConnectionResetError("the connection was closed")
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse; a byte that no request has asked for ends the connection."""
        if self._answer is None or self._answer.done():
            self.abort()
            return
        self._reason_read = False
        fault = self._parse(data)
        if self._reason is not None and not (self._reason_read and data.endswith(self._reason)):
            self._status_known()
        if fault is not None:
            self._fail(ErrorKind.PROTOCOL, fault)

    def _parse(self, data: bytes) -> str | None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return f"{self._place} switched protocols"
        except httptools.HttpParserError as error:
            return f"the answer of {self._place} is not HTTP: {error}"
        self._head_read += 0 if self._head_done else len(data)
        if self._head_read > HEAD_READ_BYTES:
            return f"more than {HEAD_READ_BYTES:,} bytes of headers from {self._place}"
        return None

    def connection_lost(self, error: Exception | None) -> None:
        """End the request under way with the status, or without one."""
        self._in_step = False
        self._fail(ErrorKind.RESET, f"{self._place} closed the connection without an answer")
        if self._timer is not None:
            self._timer.cancel()

    def on_message_begin(self) -> None:
        """A second answer in the same bytes belongs to no request."""
        if self._answer is None or self._answer.done():
            self._in_step = False

    def on_status(self, reason: bytes) -> None:
        """Some of the reason phrase; whether that was all of it the next byte tells."""
        self._reason, self._reason_read = reason, bool(reason)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header line as it came; not a trailer."""
        if self._head_done or self._head_size > HEAD_BYTES:
            return
        line = b"%b: %b\r\n" % (name, value)
        self._head_size += len(line)
        if self._head_size <= HEAD_BYTES:
            self._head.append(line)

    def on_headers_complete(self) -> None:
        """The status line may have had no reason phrase."""
        self._status_known()
        self._head_done = self._status >= 200

    def on_body(self, data: bytes) -> None:
        """Keep the first bytes, read a few more, then hang up."""
        cap = SUCCESS_BODY_BYTES if self._status < 300 else FAILURE_BODY_BYTES
        if self._body_size < cap:
            self._body.append(data[: cap - self._body_size])
        self._body_size += len(data)
        if self._body_size > BODY_READ_BYTES:
            self._finish(keep=False)

    def on_message_complete(self) -> None:
        """The answer is whole; an informational one (1xx) is only its prelude."""
        if self._status >= 200:
            self._finish(keep=self._parser.should_keep_alive())
        elif self._answer is not None and not self._answer.done():
            self._start_over()

    def _status_known(self) -> None:
        if self._status or self._answer is None or self._answer.done():
            return
        status = self._parser.get_status_code()
        if not 100 <= status <= 599:
            self._fail(ErrorKind.PROTOCOL, f"{self._place} answered with the status {status}")
            return
        self._status = status
        if status >= 200:
            self._expire_at(min(self._deadline, self._loop.time() + REST_SECONDS))

    def _expire_at(self, moment: float) -> None:
        """Seldom touches the timer: one that fires early sets itself anew."""
        self._deadline = moment
        if self._timer is None or self._timer_at > moment:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._timer_at = self._loop.call_at(moment, self._expired), moment

    def _expired(self) -> None:
        self._timer = None
        if self._answer is None or self._answer.done():
            return
        if self._loop.time() < self._deadline:
            self._expire_at(self._deadline)
        else:
            self._fail(ErrorKind.TIMEOUT, f"no answer from {self._place} within {self._total:g} s")

    def _fail(self, kind: ErrorKind, text: str) -> None:
        """End without a complete answer: a known status still decides."""
        if self._answer is None or self._answer.done():
            self._in_step = False
        elif self._status >= 200:
            self._finish(keep=False)
        else:
            self.abort()
            self._answer.set_exception(SendFailed(kind, text))

    def _finish(self, *, keep: bool) -> None:
        if self._answer is None or self._answer.done():
            return
        if not keep:
            self.abort()
        response = Response(self._status, b"".join(self._head), b"".join(self._body))
        self._answer.set_result(response)
