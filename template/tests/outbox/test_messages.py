"""A person's half: look, retry, dismiss, erase; each tenant sees its own."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import update

from app.db.engine import Database
from app.errors import BadRequest, Conflict, NotFound
from app.outbox.erasure import erase
from app.outbox.message import (
    Delivered,
    ParkedReason,
    Result,
    Status,
    webhook_destination,
)
from app.outbox.messages import (
    MessageFilter,
    dismiss,
    get_message,
    list_messages,
    retry,
    stats,
)
from app.outbox.policy import Sent
from app.outbox.store import Settlement, Store, Wanted
from app.outbox.tables import outbox_messages
from tests.outbox.factories import (
    A,
    database_clock,
    given_destination,
    given_endpoint,
    given_events,
    given_parked,
    message_rows,
)


async def test_a_list_pages_newest_first(database: Database):
    """Every message once, the newest first; the last page has no cursor."""
    await given_destination(database)
    await given_events(database, 5)
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        async with database.read() as session:
            page = await list_messages(session, MessageFilter(), 2, cursor)
        seen += [item.id for item in page.items]
        cursor, pages = page.next_cursor, pages + 1
    assert seen == [row["id"] for row in reversed(await message_rows(database))]
    assert pages == 3


async def test_a_list_of_parked_messages_has_the_last_parked_first(database: Database):
    """Not the newest; and a page goes on where the last one ended, whatever was retried since."""
    ids = await given_parked(database, 5)
    order = [ids[n] for n in (2, 0, 4, 1, 3)]
    async with database.transaction() as session:
        for place, message_id in enumerate(order):
            change = update(outbox_messages).where(outbox_messages.c.id == message_id)
            moment = datetime(2026, 1, 31, 12, tzinfo=UTC) - timedelta(minutes=place // 2)
            await session.execute(change.values(parked_at=moment))
    by_id = [*sorted(order[:2], reverse=True), *sorted(order[2:4], reverse=True), order[4]]
    wanted = MessageFilter(status=Status.PARKED)
    async with database.transaction() as session:
        whole = await list_messages(session, wanted)
        first = await list_messages(session, wanted, 3)
        assert first.next_cursor is not None
        await session.execute(update(outbox_messages).where(outbox_messages.c.id == by_id[2])
                              .values(parked_at=None, parked_reason=None))  # fmt: skip
        rest = await list_messages(session, wanted, 3, first.next_cursor)
    assert [item.id for item in whole.items] == by_id
    assert [item.id for item in first.items + rest.items] == by_id
    assert rest.next_cursor is None


async def test_a_cursor_is_good_for_its_own_list_only(database: Database):
    """One of all messages says nothing of parked ones, and the other way round."""
    await given_parked(database, 3, tenant="mine")
    parked, every = MessageFilter(status=Status.PARKED), MessageFilter()
    async with database.read() as session:
        of_parked = (await list_messages(session, parked, 1)).next_cursor
        of_all = (await list_messages(session, every, 1)).next_cursor
        assert of_parked is not None
        foreign = MessageFilter(status=Status.PARKED, tenant="other")
        far = "9" * 40 + of_parked[of_parked.index(".") :]
        for wanted, cursor in (
            (parked, of_all), (every, of_parked), (foreign, of_parked), (parked, far),
            (parked, "x." + of_parked), (parked, ""),
        ):  # fmt: skip
            with pytest.raises(NotFound, match="no next_cursor of this list"):
                await list_messages(session, wanted, cursor=cursor)


async def test_each_filter_narrows_the_list(database: Database):
    """Status, type and pattern, endpoint, tenant, reason."""
    endpoint_id = await given_endpoint(database, "enabled")
    [parked] = await given_parked(database, 1, webhook_destination(endpoint_id))
    await given_destination(database, "test:other", tenant="t", patterns=["a_b.c"])
    await given_events(database, 1, event_type="a_b.c", tenant="t")
    other = next(r["id"] for r in await message_rows(database) if r["id"] != parked)
    cases = {
        MessageFilter(status=Status.PARKED): [parked],
        MessageFilter(status=Status.PENDING): [other],
        MessageFilter(status=Status.SENT): [],
        MessageFilter(type="order.paid"): [parked],
        MessageFilter(type="order.*"): [parked],
        MessageFilter(type="a_b.*"): [other],
        MessageFilter(type="a.*"): [],
        MessageFilter(type="*"): [other, parked],
        MessageFilter(endpoint_id=endpoint_id): [parked],
        MessageFilter(tenant="t"): [other],
        MessageFilter(tenant=""): [parked],
        MessageFilter(reason=ParkedReason.REJECTED): [parked],
        MessageFilter(reason=ParkedReason.GONE): [],
    }
    async with database.read() as session:
        for wanted, expected in cases.items():
            found = [item.id for item in (await list_messages(session, wanted)).items]
            assert found == expected, wanted
        for bad in (MessageFilter(type="\x00"), MessageFilter(tenant="\x00")):
            with pytest.raises(BadRequest):
                await list_messages(session, bad)


async def test_one_message_shows_its_attempts_and_its_body(database: Database):
    """Exactly the fields of the API; a body that is no UTF-8 is shown all the same."""
    [parked] = await given_parked(database)
    async with database.read() as session:
        shown = msgspec.to_builtins(await get_message(session, parked))
    assert list(shown) == [
        "id", "event_id", "type", "tenant", "destination", "endpoint_id", "status", "attempts",
        "available_at", "parked_reason", "last_error", "created_at", "sent_at",
        "ordering_key", "sequence", "waits_for", "attempt_log", "body",
    ]  # fmt: skip
    assert shown["body"]["data"] == {"number": 0}
    [attempt] = shown["attempt_log"]
    assert (attempt["number"], attempt["outcome"], attempt["status_code"]) == (1, "failed", 404)
    assert (attempt["response_head"], attempt["response_body"]) == ("X: y\r\n", "no\ufffd")


async def test_another_tenants_message_looks_as_if_there_were_none(database: Database):
    """A foreign id, an unknown id and a foreign cursor get the same answer, for each act."""
    [parked] = await given_parked(database, tenant="mine")
    acts = [get_message, retry, erase, lambda s, i, t: dismiss(s, i, "r", t)]
    async with database.transaction() as session:
        for act in acts:
            for tenant in ("other", ""):
                with pytest.raises(NotFound, match="there is no message"):
                    await act(session, parked, tenant)
            with pytest.raises(NotFound, match="there is no message"):
                await act(session, uuid4(), None)
        assert (await list_messages(session, MessageFilter(tenant=""))).items == []
        for cursor in (str(parked), "nonsense", "\x00"):
            with pytest.raises(NotFound, match="cursor"):
                await list_messages(session, MessageFilter(tenant=""), cursor=cursor)


async def test_a_retry_keeps_the_id_and_the_numbering_and_starts_the_ladder_anew(
    database: Database,
):
    """Pending at once, its destination woken; the last error stays to be read."""
    [parked] = await given_parked(database)
    woken: list[frozenset[str]] = []
    database.on_commit.append(woken.append)
    async with database.transaction() as session:
        message = await retry(session, parked)
    assert (message.id, message.status, message.attempts) == (parked, Status.PENDING, 1)
    assert (message.parked_reason, message.last_error) == (None, "answered 404")
    assert woken == [frozenset({A})]
    store = Store(database)
    now = await database_clock(database) + timedelta(seconds=10)
    [claim] = (await store.claim([Wanted(A, 1)], now)).claims
    assert (claim.message_id, claim.attempt, claim.rung) == (parked, 2, 1)
    assert 8 < claim.age_seconds < 15
    await store.settle([Settlement(Result(claim, Delivered(), 1, 1), Sent())], now)
    await store.close()
    async with database.transaction() as session:
        with pytest.raises(Conflict, match="is sent; only a parked one can be retried"):
            await retry(session, parked)


@pytest.mark.parametrize(("status", "hint"), [("disabled", "endpoints enable"), ("deleted", "dis")])
async def test_a_message_of_a_closed_endpoint_is_not_retried(database: Database, status, hint):
    """409 with what to do."""
    endpoint_id = await given_endpoint(database, status)
    [closed] = await given_parked(database, 1, webhook_destination(endpoint_id))
    async with database.transaction() as session:
        with pytest.raises(Conflict, match=f"its endpoint is {status}") as refused:
            await retry(session, closed)
    assert refused.value.hint.startswith(hint) or hint in refused.value.hint


async def test_a_dismissed_message_is_closed_for_good(database: Database):
    """Not delivered, not retried, with a reason."""
    [parked] = await given_parked(database)
    async with database.transaction() as session:
        with pytest.raises(BadRequest, match="reason: it is empty"):
            await dismiss(session, parked, "  ")
        assert (await dismiss(session, parked, "handled by phone")).status is Status.DISMISSED
        with pytest.raises(Conflict, match="is dismissed"):
            await retry(session, parked)
        with pytest.raises(Conflict, match="is dismissed"):
            await dismiss(session, parked, "again")


async def test_stats_count_by_status_and_tell_the_oldest_age(database: Database):
    """For one tenant or for all."""
    async with database.read() as session:
        assert (await stats(session)).oldest_pending_seconds is None
    await given_parked(database, 2, tenant="t")
    await given_destination(database, "test:late")
    await given_events(database, 3)
    async with database.read() as session:
        everything, one = await stats(session), await stats(session, "t")
    assert (everything.pending, everything.parked, everything.sent) == (3, 2, 0)
    assert everything.oldest_pending_seconds is not None
    assert 0 <= everything.oldest_pending_seconds < 30
    assert (one.pending, one.parked, one.oldest_pending_seconds) == (0, 2, None)
