"""Bad input over a real socket: 4xx problem+json, and nothing stored."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from app.config import Settings
from tests.conftest import settings_for
from tests.support.site import Site, served

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
EVENT = b'{"type":"a.b","data":%s}'


@dataclass(frozen=True)
class Case:
    """A request that must be refused."""

    name: str
    status: int
    body: bytes = b""
    path: str = "/api/events"
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=lambda: dict(JSON))
    says: str = ""


def _key(text: str) -> dict[str, str]:
    return JSON | {"Idempotency-Key": text}


CASES = [
    Case("malformed JSON", 400, b'{"type":"a.b",', says="not valid JSON"),
    Case("no body", 400, says="missing"),
    Case("text after the JSON", 400, b'{"type":"a.b","data":1} x'),
    Case("a list instead of an object", 400, b"[1]"),
    Case("null", 400, b"null"),
    Case("wrong type of a field", 400, b'{"type":5,"data":1}', says="$.type"),
    Case("number as text", 400, b'{"type":"a.b","data":1,"occurred_at":"12"}', says="occurred_at"),
    Case("missing field", 400, b'{"type":"a.b"}', says="data"),
    Case("unknown field", 400, b'{"type":"a.b","data":1,"topic":"x"}', says="topic"),
    Case("unknown field in a list", 400, b'{"events":[{"type":"a","data":1,"x":1}]}', says="[0]"),
    Case("empty list", 400, b'{"events":[]}', says="$.events"),
    Case("type with a space", 400, b'{"type":"a b","data":1}', says="a b"),
    Case("empty type", 400, b'{"type":"","data":1}'),
    Case("type with a trailing newline", 400, b'{"type":"a.b\\n","data":1}'),
    Case("type that is too long", 400, b'{"type":"%s","data":1}' % (b"a" * 129), says="$.type"),
    Case("NUL in a text", 400, EVENT % b'{"note":"a\\u0000b"}', says="$.data.note"),
    Case("NUL in a name", 400, EVENT % b'{"a\\u0000b":1}', says="U+0000"),
    Case("NUL in the tenant", 400, b'{"type":"a.b","data":1,"tenant":"\\u0000"}', says="$.tenant"),
    Case("a raw control character", 400, EVENT % b'"a\x00b"'),
    Case("a lone surrogate", 400, EVENT % b'"\\ud800"'),
    Case("a lone surrogate in UTF-8", 400, EVENT % b'"\xed\xa0\x80"'),
    Case("bytes that are not UTF-8", 400, EVENT % b'"\xff\xfe"'),
    Case("UTF-16", 400, '{"type":"a.b","data":1}'.encode("utf-16")),
    Case("NaN", 400, EVENT % b"NaN"),
    Case("a number that is infinite", 400, EVENT % b'{"x":[1,1e999]}', says="$.data.x[1]"),
    Case("a number of 5,000 digits", 400, b'{"type":"a.b","data":' + b"9" * 5000 + b"}"),
    Case("a body that nobody reads", 400, b'{"zz":1}', says="reads no body",
         path="/api/messages/01990000-0000-7000-8000-000000000000/retry"),
    Case("half a body that nobody reads", 400, b"{", says="reads no body",
         path="/api/messages/01990000-0000-7000-8000-000000000000/retry"),
    Case("an infinite one in a list", 400, b'{"events":[{"type":"a","data":{"x":-1e400}}]}',
         says="$.events[0].data.x"),
    Case("NUL in a list of events", 400, b'{"events":[{"type":"a","data":1},'
         b'{"type":"a","data":["\\u0000"]}]}', says="$.events[1].data[0]"),
    Case("an event over its limit in a list", 413, b'{"events":[{"type":"a","data":1},'
         b'{"type":"a","data":"%s"}]}' % (b"x" * 300_000), says="events[1].data: "),
    Case("a list nested too deeply", 400, b'{"events":[{"type":"a","data":1},'
         b'{"type":"a","data":{"y":%s}}]}' % (b"[" * 100 + b"]" * 100), says="events[1].data.y["),
    Case("nested too deeply", 400, EVENT % (b"[" * 5000 + b"]" * 5000), says="nested"),
    Case("nested so deeply that a parser dies", 400, b"[" * 400_000),
    Case("time without a zone", 400, b'{"type":"a","data":1,"available_at":"2026-01-01T00:00:00"}'),
    Case("an impossible time", 400, b'{"type":"a","data":1,"available_at":"2026-02-30T00:00:00Z"}'),
    Case("an event over its limit", 413, EVENT % (b'"' + b"x" * 300_000 + b'"'), says="262144"),
    Case("a body over the limit", 413, EVENT % (b'"' + b"x" * 1_100_000 + b'"')),
    Case("a form", 415, b"type=a&data=1", headers=FORM),
    Case("XML", 415, b"<a/>", headers={"Content-Type": "text/xml"}),
    Case("an empty Idempotency-Key", 400, EVENT % b"1", headers=_key("")),
    Case("a long Idempotency-Key", 400, EVENT % b"1", headers=_key("k" * 256)),
    Case("an Idempotency-Key with a tab", 400, EVENT % b"1", headers=_key("a\tb")),
    Case("an Idempotency-Key beyond ASCII", 400, EVENT % b"1", headers=_key("\xe9")),
    Case("an id that is none", 404, path="/api/messages/17", method="GET"),
    Case("NUL in the path", 404, path="/api/messages/%00", method="GET"),
    Case("a path that is not UTF-8", 404, path="/api/messages/%ff%fe", method="GET"),
    Case("a path with a surrogate", 404, path="/api/%ed%a0%80", method="GET"),
    Case("an unknown address", 404, path="/api/nothing", method="GET"),
    Case("another method", 405, path="/api/events", method="DELETE"),
    Case("NUL in a type filter", 400, path="/api/messages?type=a%00b", method="GET"),
    Case("NUL in a tenant filter", 400, path="/api/messages?tenant=%00", method="GET"),
    Case("NUL in a cursor", 404, path="/api/messages?cursor=%00", method="GET"),
    Case("a status that is none", 400, path="/api/messages?status=gone", method="GET"),
    Case("a limit of 0", 400, path="/api/messages?limit=0", method="GET", says="limit"),
    Case("a huge limit", 400, path=f"/api/messages?limit={'9' * 400}", method="GET"),
    Case("an endpoint id that is none", 400, path="/api/messages?endpoint_id=x", method="GET"),
    Case("a retry without a filter", 400, b"{}", path="/api/messages/retry", says="no filter"),
    Case("a retry of a number", 400, b'{"type":1}', path="/api/messages/retry", says="$.type"),
    Case("text for a boolean", 400, b'{"all":"true"}', path="/api/messages/retry", says="$.all"),
    Case("a reason that is none", 400, b'{"reason":"x"}', path="/api/messages/retry"),
]  # fmt: skip


@pytest.fixture
async def server(settings: Settings) -> AsyncIterator[Site]:
    async with served(settings) as site:
        yield site


async def test_bad_input_is_refused_with_a_reason_and_stores_nothing(server: Site):
    """Every case: its status, problem+json with the rule, no row in any table."""
    key = await server.headers("admin")
    before = await server.stored()
    for case in CASES:
        answer = await server.client.request(
            case.method, case.path, content=case.body, headers=_raw(case.headers | key)
        )
        assert answer.status_code == case.status, (case.name, answer.text[:300])
        assert answer.headers["content-type"] == "application/problem+json", case.name
        problem = answer.json()
        assert problem["status"] == case.status
        assert problem["title"]
        assert problem["type"] == "about:blank"
        assert problem["detail"], case.name
        assert case.says in problem["detail"], (case.name, problem["detail"])
    assert await server.stored() == before


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /api/events HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/events HTTP/1.1\r\nHost: x\r\nContent-Length: 1e9\r\n\r\n",
        b"GET /api/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\x00b\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
async def test_a_request_that_is_not_http_is_refused_by_the_server(
    sqlite_url: str, request_bytes: bytes
):
    """400 and the connection ends; the application keeps answering."""
    async with served(settings_for(sqlite_url)) as site:
        url = site.client.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(request_bytes)
        answer = await asyncio.wait_for(reader.read(), timeout=10)
        writer.close()
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 401")), answer
        assert (await site.client.get("/health/live")).status_code == 200


async def test_a_body_without_a_length_is_refused_once_it_is_over_the_limit(sqlite_url: str):
    """Chunks are counted as they come; the whole is never held."""
    settings = settings_for(sqlite_url, APP_BODY_LIMIT_BYTES="1000")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 100

    async with served(settings) as site:
        headers = await site.headers("events:write") | JSON
        answer = await site.client.post("/api/events", content=chunks(), headers=headers)
        assert answer.status_code == 413
        assert await site.stored() == [0, 0, 0, 0]
