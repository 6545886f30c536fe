"""The eighth window from the receiver's side: a repetition that no sender can avoid acts once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from app.db.engine import Database
from app.inbox.inbox import once
from tests.crash.conftest import all_are, application, postgresql, publish_many, rows, until
from tests.crash.plant import LEASE_SECONDS, START_SECONDS
from tests.crash.test_windows import SETTLING, is_settling
from tests.support.processes import Application
from tests.support.received import read_request

__all__ = ["application", "postgresql"]


class Shop:
    """A receiver that ships each order once, in the transaction that remembers the id."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.arrived: list[str] = []
        self.may_answer = asyncio.Event()
        self.came = asyncio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Its address."""
        async with self._database.transaction() as session:
            await session.execute(text("CREATE TABLE shipments (webhook_id text)"))
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader, 1)) is not None:
                self.arrived.append(request.webhook_id)
                async with self._database.transaction() as session:
                    if await once(session, "orders", request.webhook_id):
                        ship = text("INSERT INTO shipments VALUES (:id)")
                        await session.execute(ship, {"id": request.webhook_id})
                self.came.set()
                await self.may_answer.wait()
                writer.write(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


async def test_window_8_a_sender_killed_between_answer_and_record_makes_a_receiver_act_once(
    application: Application, postgresql: Database
):
    """Two requests with one id, both answered 2xx; one shipment."""
    shop = Shop(postgresql)
    async with shop.listening() as url:
        application.run("endpoints", "add", url, "--types", "*")
        await publish_many(postgresql, 1)
        with application.start("relay") as first:
            await asyncio.wait_for(shop.came.wait(), START_SECONDS)
            async with postgresql.writer.connect() as holder:  # settle waits for this row
                await holder.exec_driver_sql("SELECT id FROM outbox_messages FOR UPDATE")
                shop.may_answer.set()
                await until(lambda: is_settling(postgresql), START_SECONDS)
                first.kill()
                ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " + SETTLING
                await rows(postgresql, ends)
                await holder.rollback()
        with application.start("relay"):
            await until(lambda: all_are(postgresql, "sent"), LEASE_SECONDS + START_SECONDS)
    assert len(shop.arrived) == 2
    assert len(set(shop.arrived)) == 1
    assert await rows(postgresql, "SELECT webhook_id FROM shipments") == [(shop.arrived[0],)]
