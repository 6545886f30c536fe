"""Any bytes, cut anywhere: never Delivered without a complete 2xx status line, never sent twice."""

import asyncio
import re
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.outbox.message import Response
from app.webhooks.outcomes import SendFailed
from app.webhooks.sender import Sender, Target
from tests.support.wire import Wire, listening

EXAMPLES = 60  # answers for each run; a run has one server and one sender

LINES = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 204\r\n",
    b"HTTP/1.0 201 Created\r\n",
    b"HTTP/1.1 100 Continue\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n",
    b"HTTP/1.1 404 Not Found\r\n",
    b"HTTP/1.1 503 Busy\r\n",
    b"HTTP/1.1 999 No\r\n",
    b"HTTP/1.1 20",
    b"HTTP/2 200\r\n",
    b"ICY 200 OK\r\n",
    b"200 OK\r\n",
    b"HTTP/1.1 200 OK\n",
    b"HTTP/1.1 200",
]
PIECES = [
    b"\r\n", b"\n", b"\r", b"", b"Content-Length: 2\r\n", b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Upgrade: x\r\n", b"ok",
    b"2\r\nok\r\n0\r\n\r\n", b"zz\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\x00", b": ", b"a: b\r\n",
]  # fmt: skip
answers = st.tuples(
    st.sampled_from(LINES), st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=6)
).map(lambda parts: parts[0] + b"".join(parts[1])) | st.binary(max_size=40)
cuts = st.lists(st.integers(0, 60), max_size=4)

# What RFC 9112 calls a status line, behind any number of informational answers.
_STATUS_LINE = re.compile(rb"HTTP/\d\.\d (\d\d\d)( [^\r\n]*)?\r?\n")


def may_be_delivered(answer: bytes) -> bool:
    """Whether the first line that is not of an informational answer is a 2xx status line."""
    return any(match[1].startswith(b"2") for match in _STATUS_LINE.finditer(answer))


def must_be_delivered(answer: bytes) -> bool:
    """Whether the answer begins with a complete, well-formed 2xx status line."""
    match = re.match(rb"HTTP/1\.[01] (2\d\d) [ -~]+\r\n", answer)
    return match is not None


@example([(b"HTTP/1.0 201 Created\r\n", [20])])
@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(answers, cuts), min_size=1, max_size=EXAMPLES))
def test_only_a_2xx_status_line_is_a_delivery_and_each_request_goes_out_once(batch):
    """Whatever a receiver sends, in whatever portions."""
    asyncio.run(_try_all(batch))


async def _try_all(batch: list[tuple[bytes, list[int]]]) -> None:
    for answer, cut in batch:
        sender = Sender(allow_private=True)

        async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for chunk in _portions(answer, cut):  # noqa: B023 - used before the next one
                writer.write(chunk)
                await asyncio.sleep(0.001)
            raise ConnectionResetError

        async with listening(script) as wire:
            outcome = await _send(sender, wire)
        await sender.close()
        delivered = isinstance(outcome, Response) and 200 <= outcome.status_code < 300
        assert len(wire.requests) == 1
        assert may_be_delivered(answer) or not delivered
        if must_be_delivered(answer):
            assert delivered


def _portions(answer: bytes, cut: list[int]) -> list[bytes]:
    places = sorted({0, len(answer), *(place for place in cut if place < len(answer))})
    return [answer[a:b] for a, b in pairwise(places)]


async def _send(sender: Sender, wire: Wire) -> Response | SendFailed:
    target = Target.of(wire.url(), total_seconds=5, connect_seconds=5)
    try:
        return await sender.send(target, {}, b"{}")
    except SendFailed as failure:
        return failure
