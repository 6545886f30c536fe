"""What was accepted against what arrived, and against what the database says of it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import Any

from sqlalchemy import text

from app.db.engine import Database
from tests.support.received import Received


@dataclass(slots=True)
class Ledger:
    """Counts; those in `MUST_BE_ZERO` are broken promises."""

    accepted: int = 0
    arrived: int = 0
    lost: int = 0  # accepted, and never arrived or not marked as sent
    stuck: int = 0  # neither sent nor parked
    parked: int = 0
    stored_twice: int = 0  # a POST that was repeated made a second event
    phantoms: int = 0  # a webhook for what the database does not know
    same_attempt_twice: int = 0
    after_recorded_2xx: int = 0
    unexplained: int = 0  # again, though nothing says that the earlier attempt came to nothing
    falling_attempts: int = 0  # a webhook with an attempt that the row has not counted
    repeated: int = 0  # allowed: the earlier attempt has no recorded 2xx
    reclaimed: int = 0
    settle_lost: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def broken(self) -> list[str]:
        """Each promise that was broken, with its count."""
        return [f"{n} = {getattr(self, n)}" for n in MUST_BE_ZERO if getattr(self, n)]

    def __str__(self) -> str:
        names = [f.name for f in fields(self) if f.name != "faults"]
        lines = [f"  {name.replace('_', ' '):<22}{getattr(self, name):>8,}" for name in names]
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        return "\n".join([f"faults: {faults}", *lines])


MUST_BE_ZERO = (
    "lost", "stuck", "parked", "stored_twice", "phantoms", "same_attempt_twice",
    "after_recorded_2xx", "unexplained", "falling_attempts",
)  # fmt: skip


async def _rows(database: Database, statement: str) -> Sequence[Any]:
    async with database.read() as session:
        return (await session.execute(text(statement))).all()


def number_of(data: dict[str, Any]) -> int:
    """Which of our events it is: an order carries it as its customer."""
    return int(data["number"] if "number" in data else data["customer"])


async def reckon(
    database: Database, accepted: set[int], arrived: list[Received], faults: Counter[str]
) -> Ledger:
    """Compare the three."""
    messages = await _rows(database, "SELECT id, event_id, status, attempts FROM outbox_messages")
    log = await _rows(database, "SELECT message_id, number, outcome FROM attempts")
    # Events about the application itself (`endpoint.failing`) are nobody's order.
    events = await _rows(database, "SELECT id, body FROM events WHERE type NOT LIKE 'endpoint.%'")
    ids = {str(row.id): number_of(json.loads(row.body)["data"]) for row in events}
    numbers = Counter(ids.values())
    stored = {number: id_ for id_, number in ids.items()}
    status = Counter(row.status for row in messages)
    by_event = {str(row.event_id): row for row in messages}
    reached = Counter(request.webhook_id for request in arrived)
    return Ledger(
        accepted=len(accepted),
        arrived=len(arrived),
        lost=sum(not _arrived(by_event.get(stored.get(n, "")), reached) for n in accepted),
        stuck=status["pending"] + status["claimed"],
        parked=status["parked"],
        stored_twice=sum(count - 1 for count in numbers.values()),
        phantoms=await _phantoms(database, arrived, messages),
        reclaimed=sum(row.outcome == "lost" for row in log),
        repeated=len(arrived) - len(reached),
        faults=faults,
        **_repetitions(arrived, messages, log),
    )


def _arrived(row: Any, reached: Counter[str]) -> bool:
    return row is not None and row.status == "sent" and reached[str(row.id)] > 0


def _repetitions(
    arrived: list[Received], messages: Sequence[Any], log: Sequence[Any]
) -> dict[str, int]:
    """G5: again only after an attempt without a recorded 2xx, one request for each attempt."""
    counted = {str(row.id): row.attempts for row in messages}
    outcomes = {(str(row.message_id), row.number): row.outcome for row in log}
    delivered = {id_: number for (id_, number), what in outcomes.items() if what == "delivered"}
    tried = [(r.webhook_id, int(r.headers["webhook-attempt"])) for r in arrived]
    return {
        "same_attempt_twice": sum(n - 1 for n in Counter(tried).values()),
        "after_recorded_2xx": sum(n > delivered.get(id_, n) for id_, n in tried),
        "unexplained": sum((id_, n) not in outcomes for id_, n in set(tried)),
        "falling_attempts": sum(n > counted.get(id_, n) for id_, n in tried),
    }


async def _phantoms(database: Database, arrived: list[Received], messages: Sequence[Any]) -> int:
    known = {str(row.id) for row in messages}
    count = sum(request.webhook_id not in known for request in arrived)
    if find_spec("app.orders") is not None:
        orders = {str(row.id) for row in await _rows(database, "SELECT id FROM orders")}
        ids = [r.json["data"]["id"] for r in arrived if r.json["type"] == "order.created"]
        count += sum(id_ not in orders for id_ in ids)
    return count
