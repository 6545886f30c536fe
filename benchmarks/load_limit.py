"""What the database alone allows: claim under token and lease, settle by token, nothing else."""

# mypy: disable-error-code="import-untyped"
import asyncio
import time

import asyncpg

TABLE = """CREATE TABLE IF NOT EXISTS bench_limit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text NOT NULL,
  available_at timestamptz NOT NULL DEFAULT now(), attempts int NOT NULL DEFAULT 0,
  token bigint, leased_until timestamptz, done_at timestamptz) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS bench_limit_due ON bench_limit (available_at, id) WHERE done_at IS NULL"""
FILL = "INSERT INTO bench_limit (payload) SELECT repeat('x', 1000) FROM generate_series(1, $1::int)"
CLAIM = """WITH c AS MATERIALIZED (
  SELECT id FROM bench_limit WHERE done_at IS NULL AND available_at <= now()
    AND (leased_until IS NULL OR leased_until < now())
  ORDER BY available_at, id LIMIT $1 FOR UPDATE SKIP LOCKED)
UPDATE bench_limit q SET attempts = q.attempts + 1, token = $2,
  leased_until = now() + interval '60 s' FROM c WHERE q.id = c.id RETURNING q.id, q.payload"""
SETTLE = """UPDATE bench_limit SET done_at = now(), leased_until = NULL
WHERE id = ANY($1::bigint[]) AND token = $2 AND done_at IS NULL"""
BATCH = 500


async def fill(dsn: str, count: int) -> None:
    """`count` messages that are due."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(TABLE)
    await connection.execute("TRUNCATE bench_limit")
    await connection.execute(FILL, count)
    await connection.execute("ANALYZE bench_limit")
    await connection.close()


async def drain(dsn: str) -> float:
    """Seconds until all are settled; a claim overlaps the settling of the one before."""
    claims, settles = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    claim, settle = await claims.prepare(CLAIM), await settles.prepare(SETTLE)
    began, token = time.monotonic(), time.monotonic_ns()
    settling: asyncio.Future[object] | None = None
    while True:
        token += 1
        rows = await claim.fetch(BATCH, token)
        if settling is not None:
            await settling
        if not rows:
            break
        settling = asyncio.ensure_future(settle.fetch([row[0] for row in rows], token))
    seconds = time.monotonic() - began
    await claims.close()
    await settles.close()
    return seconds


async def latency(dsn: str, rate: float, count: int) -> list[float]:
    """From the return of COMMIT to the claim: NOTIFY after it on its own connection, LISTEN."""
    await fill(dsn, 0)
    writer, notifier, listener, claims = [await asyncpg.connect(dsn) for _ in range(4)]
    claim, woken = await claims.prepare(CLAIM), asyncio.Event()
    await listener.add_listener("bench_limit", lambda *_: woken.set())
    committed: list[float] = []
    claimed: list[float] = []

    async def claiming() -> None:
        while len(claimed) < count:
            await woken.wait()
            woken.clear()
            while rows := await claim.fetch(BATCH, 1):
                claimed.extend(time.monotonic() for _ in rows)

    task, began = asyncio.create_task(claiming()), time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        await writer.execute("INSERT INTO bench_limit (payload) VALUES (repeat('x', 1000))")
        committed.append(time.monotonic())
        await notifier.execute("SELECT pg_notify('bench_limit', '')")
    async with asyncio.timeout(30):
        await task
    for connection in (writer, notifier, listener, claims):
        await connection.close()
    return [after - before for before, after in zip(committed, claimed, strict=True)]
