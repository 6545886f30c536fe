"""The inbox: a webhook that arrives twice acts once."""

import asyncio

import pytest

from app.db.engine import Database
from app.errors import BadRequest
from app.inbox.inbox import once
from app.outbox.publish import OutsideTransaction


async def receive(database: Database, source: str = "shop", webhook_id: str = "msg_1") -> bool:
    async with database.transaction() as session:
        return await once(session, source, webhook_id)


async def test_the_second_delivery_of_an_id_is_recognised(database: Database):
    """Per source: the same id from another sender is another webhook."""
    assert await receive(database)
    assert not await receive(database)
    assert await receive(database, webhook_id="msg_2")
    assert await receive(database, source="bank")


async def test_a_rollback_forgets_the_id(database: Database):
    """What was not acted on has not been seen: the next delivery acts."""

    async def receive_and_fail() -> None:
        async with database.transaction() as session:
            assert await once(session, "shop", "msg_1")
            raise LookupError

    with pytest.raises(LookupError):
        await receive_and_fail()
    assert await receive(database)


async def test_of_deliveries_at_the_same_time_exactly_one_acts(database: Database):
    """The others wait for the first to commit."""
    answers = await asyncio.gather(*(receive(database) for _ in range(5)))
    assert sorted(answers) == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("source", "webhook_id"),
    [("", "x"), ("shop", ""), ("shop", "a\x00b"), ("shop", "x" * 256), ("s" * 129, "x")],
)
async def test_an_id_that_can_be_none_is_refused(database: Database, source: str, webhook_id: str):
    """Before it reaches the database."""
    with pytest.raises(BadRequest):
        await receive(database, source, webhook_id)


async def test_outside_a_transaction_it_refuses(database: Database):
    """Nothing would commit the id."""
    async with database.read() as session:
        with pytest.raises(OutsideTransaction, match="once was called outside"):
            await once(session, "shop", "msg_1")
