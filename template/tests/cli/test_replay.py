"""`replay`: events of the past go out again; cut off, a relay goes on."""

import signal
from uuid import UUID

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import db_now
from app.ids import uuid7
from app.outbox.tables import events, outbox_messages, replays
from tests.cli.command import Project, assert_sentence
from tests.cli.processes import read_until, running, wait_until
from tests.cli.seed import audited, in_transaction, pending
from tests.support.postgres import free_port

LONG_AGO = "2020-01-01T00:00:00Z"
MANY = 20_000


def sent(project: Project, *types: str) -> list[str]:
    """Messages that were delivered; their ids."""
    ids = pending(project, *types)

    async def act(session: AsyncSession) -> None:
        await session.execute(update(outbox_messages).values(sent_at=db_now()))

    in_transaction(project, act)
    return ids


def test_a_dry_run_counts_and_a_replay_makes_new_messages(project: Project):
    """New ids, the same events; filters; audited with what was asked and what came of it."""
    old = sent(project, "order.created", "order.paid", "stock.low")
    dry = project.json("replay", "--since", LONG_AGO, "--type", "order.*", "--dry-run")
    assert dry == {"matched": 2, "created": 0, "skipped": 0}
    assert audited(project) == []
    done = project.json("replay", "--since", LONG_AGO, "--type", "order.*")
    assert (done["matched"], done["created"], done["skipped"]) == (2, 2, 0)
    assert done["finished_at"] is not None
    new = project.json("messages", "list", "--status", "pending")["items"]
    assert sorted(item["type"] for item in new) == ["order.created", "order.paid"]
    assert not {item["id"] for item in new} & set(old)
    assert [entry[1:] for entry in audited(project)] == [
        ("replay.start", done["id"]), ("replay.finish", done["id"]),
    ]  # fmt: skip


def test_nonsense_is_one_sentence(embedded: Project):
    """Exit 2 or 1 with the option and the rule; nothing on stdout."""
    cases = [
        (["--since", "yesterday"], 2, "--since"),
        (["--since", "2026-01-31T12:00"], 2, "time zone"),
        (["--since", LONG_AGO, "--until", "soon"], 2, "--until"),
    ]
    for arguments, code, says in cases:
        assert_sentence(embedded.run("replay", *arguments), code, says)
    for arguments, says in (
        (["--since", "2120-01-01T00:00Z"], "since: "),
        (["--since", LONG_AGO, "--per-second", "0"], "per_second: "),
        (["--since", LONG_AGO, "--endpoint", str(UUID(int=7))], "there is no endpoint"),
    ):
        done = embedded.run("replay", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert says in done.stderr
        assert "Traceback" not in done.stderr


def test_a_replay_whose_command_is_killed_is_finished_by_a_relay(project: Project):
    """SIGKILL once it is stored: at the end each pair has exactly one new message."""
    many_sent(project)
    with running(project, "replay", "--since", LONG_AGO, "--per-second", "0.01") as process:
        read_until(process.stderr, "is stored")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not progress(project)[1], "it was killed too late to tell"
    with running(project, "serve" if is_sqlite(project) else "relay", *port(project)):
        wait_until(lambda: progress(project)[1], "a relay has finished the replay")
    assert progress(project) == (MANY, True)
    assert in_transaction(project, fewest_and_most) == (2, 2)


def is_sqlite(project: Project) -> bool:
    return project.variables["APP_DATABASE_URL"].startswith("sqlite")


def port(project: Project) -> list[object]:
    return ["--port", free_port()] if is_sqlite(project) else []


def many_sent(project: Project) -> None:
    """Many events, each delivered to one endpoint."""
    sent(project, "order.created")

    async def act(session: AsyncSession) -> None:
        m = outbox_messages.c
        destination = (await session.execute(select(m.destination))).scalar_one()
        ids = [uuid7() for _ in range(MANY - 1)]
        event = {"type": "order.created", "tenant": "", "body": b"{}"}
        for start in range(0, len(ids), 1000):
            part = ids[start : start + 1000]
            await session.execute(
                insert(events).values(**event, occurred_at=db_now()), [{"id": i} for i in part]
            )
            await session.execute(
                insert(outbox_messages).values(sent_at=db_now()),
                [{"id": uuid7(), "event_id": i, "destination": destination} for i in part],
            )

    in_transaction(project, act)


def progress(project: Project) -> tuple[int, bool]:
    """How many messages the replay has made, and whether it is finished."""

    async def act(session: AsyncSession) -> tuple[int, bool]:
        row = (await session.execute(select(replays))).one_or_none()
        return (0, False) if row is None else (row.created, row.finished_at is not None)

    return in_transaction(project, act)


async def fewest_and_most(session: AsyncSession) -> tuple[int, int]:
    """Of any event, how many messages there are at least and at most."""
    m = outbox_messages.c
    per_event = select(func.count(m.id).label("n")).group_by(m.event_id).subquery()
    row = (await session.execute(select(func.min(per_event.c.n), func.max(per_event.c.n)))).one()
    return row[0], row[1]
