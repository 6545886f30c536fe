"""How a claim in order finds its messages: by the index of the ordered lane, key after key."""

import pytest
from sqlalchemy import text

from app.db.engine import Database
from app.outbox import statements_postgresql as postgresql
from app.outbox import statements_sqlite as sqlite
from app.outbox.driver import connect
from app.outbox.message import Ordering
from app.outbox.ordering import Order, set_order
from tests.outbox.factories import A, given_destination, given_events
from tests.outbox.test_plans import explain, on_postgresql, on_sqlite

SENT, KEYS, EACH, SLOTS = 20_000, 300, 10, 50

FILL = f"""INSERT INTO outbox_messages
  (id, event_id, destination, sent_at, attempts, ordering_key, sequence)
SELECT gen_random_uuid(), (SELECT id FROM events LIMIT 1), '{A}',
  CASE WHEN n <= {SENT} THEN now() END, 0, 'key ' || n % {KEYS}, n
FROM generate_series(1, {SENT + KEYS * EACH}) n"""


@pytest.mark.parametrize("ordering", [Ordering.STRICT, Ordering.YIELD, Ordering.SKIP])
@pytest.mark.parametrize("analysed", [True, False])
@on_postgresql
async def test_a_claim_in_order_looks_at_a_few_rows_of_a_few_keys(
    database: Database, ordering: Ordering, analysed: bool
):
    """It stops when the slots are full, and reads no line that its head may go from."""
    await given_destination(database)
    await given_events(database)
    async with database.transaction() as session:
        await set_order(session, A, Order(ordering))
        await session.execute(text(FILL))
    connection = await connect(database, "plans", 30)
    try:
        if analysed:
            await connection.execute("ANALYZE")
        ran = await explain(connection, postgresql.PICK_ORDERED, [A], [SLOTS], [""], None, 1000)
    finally:
        await connection.close()
    assert [n for n in ran if n["Node Type"] == "Seq Scan"] == []
    used = {n["Index Name"] for n in ran if "Index Name" in n}
    assert used <= {"ix_outbox_messages_ordered", "pk_outbox_messages", "pk_orderings"}
    read = [n["Actual Rows"] * n["Actual Loops"] for n in ran if n["Node Type"].startswith("Index")]
    assert max(read) <= SLOTS + 1
    assert sum(n.get("Rows Removed by Filter", 0) for n in ran) == 0


@on_sqlite
async def test_on_sqlite_it_goes_by_the_same_index(database: Database):
    """No scan over the table in any part of it."""
    values = {
        "destination": A,
        "after": "",
        "slots": 9,
        "policy": "yield",
        "gap": 1,
        "now": "now",
        "probes": 9,
    }
    async with database.reader.connect() as connection:
        plan = text(f"EXPLAIN QUERY PLAN {sqlite.PICK_ORDERED.text}")
        steps = [row[3] for row in await connection.execute(plan, values)]
    scanned = {step.split()[1] for step in steps if step.startswith("SCAN")}
    assert not any("outbox_messages" in name for name in scanned)
    by_index = [step for step in steps if "ix_outbox_messages_ordered" in step]
    assert len(by_index) >= 5
