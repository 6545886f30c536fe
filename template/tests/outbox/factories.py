"""What the tests of outbox and relay set up: subscriptions, events, deliverers without network."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid4

from sqlalchemy import insert, select, text

from app.db.engine import Database
from app.outbox.event import Event, Published
from app.outbox.message import (
    Claim,
    Delivered,
    ErrorKind,
    Failed,
    Outcome,
    ParkedReason,
    Response,
    Result,
)
from app.outbox.policy import DEFAULT_POLICY, Park, RetryPolicy
from app.outbox.publish import publish_all
from app.outbox.store import Settlement, Store, Wanted
from app.outbox.subscriptions import subscribe
from app.outbox.tables import attempts, outbox_messages
from app.webhooks.tables import endpoints

A = "test:a"
B = "test:b"


async def given_destination(
    database: Database, destination: str = A, tenant: str = "", patterns: Sequence[str] = ("*",)
) -> str:
    """A destination that has subscribed."""
    async with database.transaction() as session:
        await subscribe(session, destination, tenant, patterns)
    return destination


async def given_events(
    database: Database, count: int = 1, event_type: str = "order.paid", tenant: str = ""
) -> list[Published]:
    """Events, published and committed."""
    batch = [Event(type=event_type, data={"number": n}, tenant=tenant) for n in range(count)]
    async with database.transaction() as session:
        return await publish_all(session, batch)


async def message_rows(database: Database) -> list[dict]:
    """Every message, oldest first."""
    async with database.read() as session:
        result = await session.execute(select(outbox_messages).order_by(outbox_messages.c.id))
        return [dict(row) for row in result.mappings()]


async def attempt_rows(database: Database) -> list[dict]:
    """Every attempt, by message and number."""
    async with database.read() as session:
        query = select(attempts).order_by(attempts.c.message_id, attempts.c.number)
        return [dict(row) for row in (await session.execute(query)).mappings()]


async def database_clock(database: Database) -> datetime:
    """What the database says the time is."""
    async with database.read() as session:
        if database.is_sqlite:
            statement = text("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')")
            return datetime.fromisoformat((await session.execute(statement)).scalar_one())
        return (await session.execute(text("SELECT now()"))).scalar_one().astimezone(UTC)


FAILED = Failed(ErrorKind.STATUS, "answered 404", Response(404, b"X: y\r\n", b"no\xff"))


async def given_parked(
    database: Database, count: int = 1, destination: str = A, tenant: str = ""
) -> list[UUID]:
    """Parked messages of a destination, oldest first."""
    await given_destination(database, destination, tenant)
    await given_events(database, count, tenant=tenant)
    store = Store(database)
    claims = (await store.claim([Wanted(destination, count)])).claims
    park = Park(ParkedReason.REJECTED)
    batch = [Settlement(Result(claim, FAILED, 1.0, 0.5), park) for claim in claims]
    assert len(await store.settle(batch)) == count
    await store.close()
    return sorted(claim.message_id for claim in claims)


async def given_endpoint(database: Database, status: str = "enabled", tenant: str = "") -> UUID:
    """An endpoint that nothing is sent to yet."""
    endpoint_id = uuid4()
    async with database.transaction() as session:
        values = {"id": endpoint_id, "tenant": tenant, "url": "http://x", "status": status}
        await session.execute(insert(endpoints).values(**values))
    return endpoint_id


class FakeKind:
    """A kind of destination without network: it answers what the test tells it to."""

    def __init__(
        self,
        answer: Callable[[Claim], Outcome] = lambda claim: Delivered(),
        policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self.answer = answer
        self.seen: list[Claim] = []
        self._policy = policy

    @property
    def ids(self) -> list[UUID]:
        """The messages seen, in order."""
        return [claim.message_id for claim in self.seen]

    async def deliver(self, claim: Claim) -> Outcome:
        """Answer as told."""
        self.seen.append(claim)
        return self.answer(claim)

    def policy(self, destination: str) -> RetryPolicy:
        """The policy the test gave."""
        return self._policy

    async def close(self) -> None:
        """Nothing to give back."""
