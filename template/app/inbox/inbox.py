"""The receiver's side of at-least-once: act on a webhook once, however often it arrives.

    async with database.transaction() as session:
        if await once(session, "shop", headers["webhook-id"]):
            session.add(Shipment(...))

Invariant: the id is written in the transaction that acts on it. If that rolls back, the id was
never seen and the sender's next attempt acts; a second delivery that arrives meanwhile waits for
the first transaction to end. Ids are kept for `APP_PRUNE_INBOX_DAYS`; that must be longer than the
sender goes on trying.
"""

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import IN_TRANSACTION
from app.errors import BadRequest
from app.outbox.event import check_text
from app.outbox.publish import OutsideTransaction
from app.outbox.tables import inbox_messages

LENGTHS = {"source": 128, "webhook_id": 255}


async def once(session: AsyncSession, source: str, webhook_id: str) -> bool:
    """True for the first delivery of this id from this source, False for every further one.

    Raises `BadRequest` for an id that can't be one, `OutsideTransaction` where nothing would
    commit it. Never commits.
    """
    for name, value in (("source", source), ("webhook_id", webhook_id)):
        check_text(name, value, LENGTHS[name])
        if not value:
            raise BadRequest(f"{name}: it is empty")
    if not session.info.get(IN_TRANSACTION):
        raise OutsideTransaction(
            "once was called outside Database.transaction(), where nothing would commit it",
            hint="call it in the transaction that acts on the webhook",
        )
    values = {"source": source, "webhook_id": webhook_id}
    statement = _insert(session).on_conflict_do_nothing().returning(inbox_messages.c.source)
    return (await session.execute(statement.values(values))).one_or_none() is not None


def _insert(session: AsyncSession) -> sqlite.Insert | postgresql.Insert:
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(inbox_messages)
    return postgresql.insert(inbox_messages)
