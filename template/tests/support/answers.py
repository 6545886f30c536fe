"""How a receiver answers, and how it misbehaves: the bytes of `receiver.py`."""

import asyncio
import socket
import struct
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

Headers = tuple[tuple[str, str], ...]


class Fault(StrEnum):
    """What the receiver does wrong, after it has read the whole request."""

    NONE = "none"
    RESET = "reset"  # TCP reset instead of an answer
    CLOSE = "close"  # closes without an answer
    SILENT = "silent"  # never answers
    HALF_STATUS = "half_status"  # the beginning of a status line, then nothing
    HALF_HEAD = "half_head"  # status line and one header, then nothing
    STALL = "stall"  # complete header block, then nothing of the promised body
    RESET_BODY = "reset_body"  # complete header block, then a TCP reset
    DRIP = "drip"  # a body that grows for ever, a few bytes at a time
    GARBAGE = "garbage"  # bytes that are not HTTP


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `hold` is waited for before answering; `delay_seconds` passes after it."""

    status: int = 200
    body: bytes = b"ok"
    headers: Headers = ()
    delay_seconds: float = 0.0
    fault: Fault = Fault.NONE
    hold: asyncio.Event | None = None
    close: bool = False  # close the connection after the answer, as `Connection: close` says
    promise_keep_alive: bool = False  # close all the same, without saying so

    def head(self) -> bytes:
        """Status line and headers."""
        try:
            phrase = HTTPStatus(self.status).phrase
        except ValueError:
            phrase = "Unknown"
        length = 1_000_000_000 if self.fault is not Fault.NONE else len(self.body)
        lines = [f"HTTP/1.1 {self.status} {phrase}"]
        if self.status != HTTPStatus.NO_CONTENT:
            lines.append(f"Content-Length: {length}")
        if self.close:
            lines.append("Connection: close")
        lines += [f"{name}: {value}" for name, value in self.headers]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def write_answer(
    answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answer, or misbehave; True when the connection stays open for the next request."""
    if answer.hold is not None:
        await answer.hold.wait()
    if answer.delay_seconds:
        await asyncio.sleep(answer.delay_seconds)
    if answer.fault is Fault.NONE:
        writer.write(answer.head() + (b"" if answer.status == 204 else answer.body))
        await writer.drain()
        return not (answer.close or answer.promise_keep_alive)
    await _misbehave(answer, reader, writer)
    return False


async def _misbehave(
    answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    if answer.fault in (Fault.STALL, Fault.RESET_BODY, Fault.DRIP):
        writer.write(answer.head())
    elif answer.fault is Fault.HALF_STATUS:
        writer.write(answer.head()[: len("HTTP/1.1 200 O")])
    elif answer.fault is Fault.HALF_HEAD:
        writer.write(answer.head().removesuffix(b"\r\n\r\n"))
    elif answer.fault is Fault.GARBAGE:
        writer.write(b"\x00\xff this is not HTTP\r\n\r\n")
    await writer.drain()
    if answer.fault in (Fault.SILENT, Fault.HALF_STATUS, Fault.HALF_HEAD, Fault.STALL):
        await reader.read()  # until the sender gives up
    elif answer.fault in (Fault.RESET, Fault.RESET_BODY):
        _reset(writer)
    elif answer.fault is Fault.DRIP:
        await _drip(writer)


async def _drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"drip")
        await writer.drain()
        await asyncio.sleep(0.02)


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
