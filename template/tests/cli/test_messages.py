"""`messages`: list, show, stats, erase."""

from uuid import UUID, uuid4

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import db_now, db_now_plus
from app.outbox.messages import get_message
from app.outbox.tables import attempts, outbox_messages
from tests.cli.command import Project, assert_sentence
from tests.cli.seed import audited, in_transaction, parked, pending

FIELDS = {
    "id", "event_id", "type", "tenant", "destination", "endpoint_id", "status", "attempts",
    "available_at", "parked_reason", "last_error", "created_at", "sent_at",
}  # fmt: skip


def test_list_prints_one_object_newest_first(project: Project):
    """`{"items", "next_cursor"}` with the fields of the HTTP API; the cursor gives the rest."""
    ids = sorted(pending(project, "order.created", "order.paid", "stock.low"))  # same millisecond
    page = project.json("messages", "list", "--limit", 2)
    assert [item["id"] for item in page["items"]] == [ids[2], ids[1]]
    assert set(page["items"][0]) == FIELDS
    rest = project.json("messages", "list", "--limit", 2, "--cursor", page["next_cursor"])
    assert [item["id"] for item in rest["items"]] == [ids[0]]
    assert rest["next_cursor"] is None


def test_list_filters(embedded: Project):
    """By state, type pattern and tenant; '' is a tenant of its own."""
    waiting, _ = pending(embedded, "order.created", "stock.low", tenant="acme")
    (dead,) = parked(embedded, "order.created")

    def listed(*filters: str) -> list[str]:
        return [item["id"] for item in embedded.json("messages", "list", *filters)["items"]]

    assert listed("--status", "parked") == [dead]
    assert listed("--type", "order.*", "--tenant", "acme") == [waiting]
    assert listed("--tenant", "") == [dead]
    owner = embedded.json("messages", "show", dead)["endpoint_id"]
    assert listed("--endpoint", owner) == [dead]


def test_into_a_pipe_a_table_is_tab_separated(embedded: Project):
    """A program can cut it; ids are whole."""
    (message,) = pending(embedded, "order.created")
    heading, line = embedded.ok("messages", "list").splitlines()
    assert heading.split("\t")[:2] == ["id", "type"]
    assert line.split("\t")[:2] == [message, "order.created"]


def test_show_adds_attempts_and_body(embedded: Project):
    """JSON has them as fields, the other form as sections."""
    (message,) = pending(embedded, "order.created", data={"total": "12.00"})
    shown = embedded.json("messages", "show", message)
    assert set(shown) == FIELDS | {"attempt_log", "body", "ordering_key", "sequence", "waits_for"}
    assert shown["body"]["data"] == {"total": "12.00"}
    text = embedded.ok("messages", "show", message)
    assert '"total": "12.00"' in text
    assert message in text


def test_what_strangers_wrote_is_inert(embedded: Project):
    """No escape sequence of a receiver or a publisher reaches the terminal."""
    hostile = "\x1b[2J\x9b31m\u202e[red]text\n\ttwo"
    (message,) = parked(embedded, "order.created", data=hostile, error=hostile)
    for command in (["messages", "show", message], ["parked"], ["parked", "--json"]):
        text = embedded.ok(*command)
        assert not set(text) & {"\x1b", "\x9b", "\u202e"}
        assert "[red]text" in text
    shown = embedded.json("messages", "show", message)
    assert (shown["last_error"], shown["body"]["data"]) == (hostile, hostile)


def test_stats_counts_by_state(project: Project):
    """Every state is there, also with 0."""
    pending(project, "order.created", "order.paid")
    parked(project, "stock.low", tenant="acme")
    counted = project.json("messages", "stats")
    age = counted.pop("oldest_pending_seconds")
    assert counted == {"pending": 2, "claimed": 0, "sent": 0, "parked": 1, "dismissed": 0}
    assert 0 <= age < 60


def test_erase_replaces_the_body_for_ever(embedded: Project):
    """The act is audited, the body is not repeated, and what was to be sent never will be."""
    (message,) = parked(embedded, "order.created", data={"name": "Alice"})
    assert_sentence(embedded.run("messages", "erase", message), 2, "--yes")
    embedded.ok("messages", "erase", message, "--yes")
    assert "Alice" not in embedded.ok("messages", "show", message, "--json")
    refused = embedded.run("retry", message)
    assert refused.returncode == 1
    assert "nothing to send" in refused.stderr
    assert audited(embedded)[-1][1:] == ("message.erase", message)


def test_an_unknown_or_malformed_id_is_one_sentence(embedded: Project):
    """Unknown: exit 1 with the id; malformed: a usage error, exit 2."""
    unknown = str(uuid4())
    done = embedded.run("messages", "show", unknown)
    assert done.returncode == 1
    assert done.stdout == ""
    assert unknown in done.stderr
    done = embedded.run("messages", "show", "12")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_bad_filters_are_refused(embedded: Project):
    """Exit 1 or 2, nothing on stdout."""
    for filters in (["--type", "a b"], ["--status", "lost"], ["--cursor", "x"], ["--limit", "0"]):
        done = embedded.run("messages", "list", *filters)
        assert done.returncode in (1, 2), filters
        assert done.stdout == ""
        assert "Traceback" not in done.stderr


def test_an_endpoint_that_never_was_is_said(embedded: Project):
    """Not an empty list: exit 1, the id, and the command that lists endpoints."""
    unknown = UUID(int=7)
    for command in (["messages", "list"], ["parked"], ["retry", "--all"]):
        done = embedded.run(*command, "--endpoint", unknown)
        assert_sentence(done, 1, f"there is no endpoint {unknown}", "endpoints list")


def test_durations_are_in_words_for_people_and_numbers_for_programs(embedded: Project):
    """The attempts of `show` and the age of `stats`; `--json` keeps the units of the API."""
    (message,) = pending(embedded, "order.created")

    async def act(session: AsyncSession) -> None:
        shown = await get_message(session, UUID(message))
        await session.execute(update(outbox_messages).values(created_at=db_now_plus(-6185)))
        await session.execute(
            insert(attempts).values(
                message_id=shown.id, number=1, event_id=shown.event_id, type=shown.type,
                destination=shown.destination, started_at=db_now(), duration_ms=90_061.5,
                outcome="failed", error="no answer",
            )
        )  # fmt: skip

    in_transaction(embedded, act)
    text = embedded.ok("messages", "show", message)
    assert "1 min 30 s" in text
    assert "90061" not in text
    (attempt,) = embedded.json("messages", "show", message)["attempt_log"]
    assert attempt["duration_ms"] == 90_061.5
    (line,) = [li for li in embedded.ok("messages", "stats").splitlines() if "oldest" in li]
    assert line.split(maxsplit=1) == ["oldest_pending", "1 h 43 min"]
    assert embedded.json("messages", "stats")["oldest_pending_seconds"] >= 6185
