"""The limit: the fastest claim and completion that this database gives to Python, nothing else.

    keep      one table; lease columns in no index, completion by token, the row stays
    attempts  what our relay writes: immutable message, narrow row with lease and token, and one row
              of an attempts' log for each message, in the statement that completes it

`python -m benchmarks.peers.adapters.sqllimit keep VERB`; what works on the rows is sqllimit_loops.
"""

# mypy: disable-error-code="import-untyped"
import asyncio
import sys
from typing import ClassVar

import asyncpg

from benchmarks.peers.adapters import base
from benchmarks.peers.adapters.sqllimit_loops import CHANNEL, Claims, Waiting, drain, send

MESSAGE = """CREATE TABLE outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  topic text NOT NULL, payload text NOT NULL, headers jsonb"""
LEASED = """available_at timestamptz NOT NULL DEFAULT now(),
  attempts int NOT NULL DEFAULT 0, token bigint, leased_until timestamptz, done_at timestamptz
) WITH (fillfactor = 50)"""
DUE = "CREATE INDEX due ON {table} (available_at, id) WHERE done_at IS NULL"
ATTEMPT = """CREATE TABLE attempt (
  message_id bigint, number int, type text NOT NULL, destination text NOT NULL,
  started_at timestamptz NOT NULL, duration_ms float8 NOT NULL, outcome text NOT NULL,
  status_code smallint, error text, response_head bytea, response_body bytea,
  PRIMARY KEY (message_id, number))"""
PICK = """SELECT id FROM {table} WHERE done_at IS NULL AND available_at <= now()
  AND (leased_until IS NULL OR leased_until < now())
ORDER BY available_at, id LIMIT $1 FOR UPDATE SKIP LOCKED"""
LEASE = """UPDATE {table} q SET attempts = q.attempts + 1, token = $2,
leased_until = now() + interval '60 s' FROM c WHERE q.id = c.id"""
DONE = """UPDATE {table} SET done_at = now(), leased_until = NULL
WHERE id = ANY($1::bigint[]) AND token = $2 AND done_at IS NULL"""
WITH_ATTEMPT = """WITH w AS ({done} RETURNING id, attempts) INSERT INTO attempt
  (message_id, number, type, destination, started_at, duration_ms, outcome, status_code)
SELECT id, attempts, 'order.created', 'webhook:01890a5d-ac96-774b-bcce-b302099a8057', now(), 1.0,
  'delivered', 204 FROM w"""
ONE = "INSERT INTO outbox (topic, payload) VALUES ('order.created', $1)"
MANY = "INSERT INTO outbox (topic, payload) SELECT 'order.created', p FROM unnest($1::text[]) p"


class Kick:
    """NOTIFY on its own connection after the commit: at once, then at most one per 5 ms."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection, self.wanted = connection, asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self.wanted.wait()
            self.wanted.clear()
            await self._connection.execute(f"SELECT pg_notify('{CHANNEL}', '')")
            await asyncio.sleep(0.005)


class Producer(base.PgProducer):
    """One INSERT a message."""

    kick: Kick | None = None

    async def enqueue(self, i: int) -> None:
        """Insert it."""
        await self.connection.execute(ONE, base.text(i))

    async def both(self, i: int) -> None:
        """The business row and its message, then a wake-up."""
        await super().both(i)
        if self.kick is not None:
            self.kick.wanted.set()


class Keep(base.Adapter):
    """One table."""

    version = "own"
    profiles: ClassVar[dict[str, base.Settings]] = {
        "drain": {"batch": 500, "waiting": Waiting.POLL},
        "http": {"batch": 250, "connections": 64, "waiting": Waiting.POLL},
        "latency": {"batch": 500, "waiting": Waiting.LISTEN},
    }
    count = 80_000
    table = "outbox"
    ddl = f"{MESSAGE}, {LEASED}"
    insert = MANY
    claim = f"WITH c AS MATERIALIZED ({PICK}) {LEASE} RETURNING q.id, q.payload"
    complete = DONE
    reset_sql = "TRUNCATE outbox"
    pending_sql = "SELECT EXISTS (SELECT 1 FROM outbox WHERE done_at IS NULL)"
    left_sql = "SELECT count(*) FROM outbox WHERE done_at IS NULL"

    async def setup(self) -> None:
        """Make the tables and the index of what is due."""
        connection = await asyncpg.connect(base.DSN)
        for statement in (base.BUSINESS_DDL, self.ddl, DUE.format(table=self.table)):
            await connection.execute(statement)
        await connection.close()

    async def fill(self, count: int) -> None:
        """Insert, 2,000 in a statement."""
        connection = await asyncpg.connect(base.DSN)
        async with connection.transaction():
            for start in range(0, count, 2000):
                numbers = range(start, min(count, start + 2000))
                await connection.execute(self.insert, [base.text(i) for i in numbers])
        await connection.close()

    async def producer(self, *, wake: bool) -> Producer:
        """With a notifying connection beside it when somebody is to be woken."""
        made = Producer(await asyncpg.connect(base.DSN))
        if wake:
            made.kick = Kick(await asyncpg.connect(base.DSN))
        return made

    async def run_worker(self, work: base.Work) -> None:
        """Claim and complete on two connections; a third one listens."""
        claims = await Claims.open(
            self.claim.format(table=self.table),
            self.complete.format(table=self.table),
            work.settings,
        )
        await work.ready()
        await (send if "connections" in work.settings else drain)(claims, work)


class Attempts(Keep):
    """Message, narrow row, attempts' log."""

    table = "delivery"
    ddl = (
        f"{MESSAGE}, created_at timestamptz NOT NULL DEFAULT now());"
        f"CREATE TABLE delivery (id bigint PRIMARY KEY, {LEASED};{ATTEMPT}"
    )
    insert = f"WITH m AS ({MANY} RETURNING id) INSERT INTO delivery (id) SELECT id FROM m"
    claim = (
        f"WITH c AS MATERIALIZED ({PICK}), l AS ({LEASE} RETURNING q.id)"
        " SELECT o.id, o.payload FROM l JOIN outbox o USING (id)"
    )
    complete = WITH_ATTEMPT.replace("{done}", DONE)
    reset_sql = "TRUNCATE outbox, delivery, attempt"
    pending_sql = "SELECT EXISTS (SELECT 1 FROM delivery WHERE done_at IS NULL)"
    left_sql = "SELECT count(*) FROM delivery WHERE done_at IS NULL"


if __name__ == "__main__":
    base.main({"keep": Keep, "attempts": Attempts}[sys.argv[1]](), sys.argv[2:])
