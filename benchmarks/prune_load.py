"""Run by `prune.py` with the application on the path; prints its figures as JSON."""

# mypy: disable-error-code="import-not-found,import-untyped"
import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field

from app.config import load_settings
from app.db.engine import Database
from app.db.migrate import upgrade
from app.outbox.message import Delivered, Result
from app.outbox.policy import Sent
from app.outbox.prune import PruneReport, prune
from app.outbox.store import Settlement, Store, Wanted
from sqlalchemy import text
from tests.support.postgres import new_database, server_url

OLD = int(os.environ.get("BENCH_OLD", "1000000"))
PENDING = OLD // 2
DESTINATIONS = 50
CLAIMS_WITHOUT = 1500
PAUSE_SECONDS = 0.01

# An id for each number: UUIDv7s whose time is a number of days ago.
ID = """(lpad(to_hex((extract(epoch FROM now()) * 1000)\\:\\:bigint - {days} * 86400000\\:\\:bigint + n), 12, '0')
 || '7000' || '8' || lpad(to_hex(n), 15, '0'))\\:\\:uuid"""
EVENTS = """INSERT INTO events (id, type, tenant, body, occurred_at, created_at)
SELECT {id}, 'order.paid', '', decode(repeat('7b', 400), 'hex'), {at}, {at}
FROM generate_series(1, :count) n"""
MESSAGES = """INSERT INTO outbox_messages (id, event_id, destination, created_at, sent_at)
SELECT {id}, {id}, 'test:' || n % :destinations, {at}, {sent} FROM generate_series(1, :count) n"""


@dataclass(slots=True)
class Claims:
    """How long each claim took."""

    store: Store
    seconds: list[float] = field(default_factory=list)
    turn: int = 0

    async def one(self) -> None:
        """Claim ten messages of five destinations and settle them."""
        wanted = [Wanted(f"test:{(self.turn * 5 + n) % DESTINATIONS}", 2) for n in range(5)]
        self.turn += 1
        began = time.perf_counter()
        claims = (await self.store.claim(wanted)).claims
        self.seconds.append(time.perf_counter() - began)
        assert claims, "the backlog is too small for this run"
        results = [Settlement(Result(claim, Delivered(), 0.01, 0.01), Sent()) for claim in claims]
        await self.store.settle(results)
        await asyncio.sleep(PAUSE_SECONDS)

    def p99(self) -> float:
        """The 99th percentile."""
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]


async def fill(database: Database) -> None:
    """Old sent messages, and a backlog to claim from."""
    for days, at, sent, count in (
        (30, "now() - interval '30 days'", "now() - interval '30 days'", OLD),
        (0, "now()", "NULL", PENDING),
    ):
        parts = {"id": ID.format(days=days), "at": at, "sent": sent}
        async with database.transaction() as session:
            await session.execute(text(EVENTS.format(**parts)), {"count": count})
            given = {"count": count, "destinations": DESTINATIONS}
            await session.execute(text(MESSAGES.format(**parts)), given)
    async with database.writer.connect() as connection:
        plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await plain.execute(text("VACUUM ANALYZE events, outbox_messages"))


async def measure(url: str) -> dict[str, float]:
    """Claims without, while and again without pruning."""
    settings = load_settings(
        {"APP_ENV": "test", "APP_SECRET_KEY": "k" * 40, "APP_DATABASE_URL": url}
    )
    database = Database(settings)
    await upgrade(database)
    await fill(database)
    store = Store(database)
    before, during, after = Claims(store), Claims(store), Claims(store)
    for _ in range(CLAIMS_WITHOUT):
        await before.one()
    task: asyncio.Task[PruneReport] = asyncio.create_task(prune(database, settings))
    began = time.monotonic()
    while not task.done():
        await during.one()
    took, report = time.monotonic() - began, task.result()
    for _ in range(CLAIMS_WITHOUT):
        await after.one()
    without = Claims(store, before.seconds + after.seconds)
    print(
        f"pruned in {took:.0f} s; p99 before {before.p99() * 1000:.1f} ms, "
        f"while {during.p99() * 1000:.1f} ms, after {after.p99() * 1000:.1f} ms",
        file=sys.stderr,
    )
    await store.close()
    await database.dispose()
    return {
        "pruned": report.messages + report.events,
        "prune_seconds": took,
        "claims_while": len(during.seconds),
        "claims_without": len(without.seconds),
        "p99_while": during.p99(),
        "p99_without": without.p99(),
    }


if __name__ == "__main__":
    with server_url() as server, new_database(server) as url:
        print(json.dumps(asyncio.run(measure(url.render_as_string(hide_password=False)))))
