"""1,000 POSTs at the same time with 100 idempotency keys, against a real server process."""

import asyncio
from collections import Counter, defaultdict

import httpx
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.tables import idempotency_keys
from app.outbox.tables import events, outbox_messages
from tests.cli.command import Project
from tests.cli.processes import serving
from tests.cli.seed import in_transaction
from tests.support.postgres import free_port

KEYS = 100
TIMES = 10
SECONDS = 120

Answer = tuple[str, int, bytes, bool]


async def post_all(url: str, key: str) -> list[Answer]:
    """Every request has a connection of its own and is sent before the first answer is read."""
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(limits=limits, timeout=SECONDS, headers=headers) as client:

        async def post(number: int) -> Answer:
            name = f"key-{number % KEYS}"
            body = {"type": "thing.happened", "data": {"key": name}}
            answer = await client.post(url, json=body, headers={"Idempotency-Key": name})
            return name, answer.status_code, answer.content, "Idempotent-Replayed" in answer.headers

        return await asyncio.gather(*(post(n) for n in range(KEYS * TIMES)))


def counted(project: Project) -> list[int]:
    """How many events, messages and keys are stored."""

    async def act(session: AsyncSession) -> list[int]:
        ours = select(events.c.id).where(
            events.c.type == "thing.happened"
        )  # not `endpoint.failing`
        return [
            (await session.execute(select(func.count()).select_from(rows))).scalar_one()
            for rows in (ours.subquery(), outbox_messages, idempotency_keys)
        ]

    return in_transaction(project, act)


def test_a_thousand_posts_with_a_hundred_keys_are_a_hundred_events(project: Project):
    """Every caller gets the first answer of its key; exactly one of each ten is not a replay."""
    key = project.ok("keys", "create", "--scope", "events:write").strip()
    project.ok("endpoints", "add", "http://127.0.0.1:9/", "--types", "thing.*")
    project.variables["APP_LOG_LEVEL"] = "warning"  # nobody reads the pipe meanwhile
    port = free_port()
    with serving(project, "serve", port):
        answers = asyncio.run(post_all(f"http://127.0.0.1:{port}/api/events", key))
    assert Counter(status for _, status, _, _ in answers) == {201: KEYS * TIMES}
    bodies, first = defaultdict(set), Counter()
    for name, _, body, replayed in answers:
        bodies[name].add(body)
        first[name] += not replayed
    assert {len(found) for found in bodies.values()} == {1}
    assert set(first.values()) == {1}
    assert len({body for found in bodies.values() for body in found}) == KEYS
    assert counted(project) == [KEYS, KEYS, KEYS]
