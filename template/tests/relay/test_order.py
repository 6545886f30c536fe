"""G10: messages of one ordering key arrive in order, with failures, over real relays."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from prometheus_client import CollectorRegistry

from app.config import Settings
from app.db.engine import Database
from app.outbox.event import Event
from app.outbox.message import Claim, Delivered, ErrorKind, Failed, Ordering, Outcome, ParkedReason
from app.outbox.messages import dismiss, retry, stats
from app.outbox.ordering import Order, set_order
from app.outbox.policy import Exponential
from app.outbox.publish import publish_all
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from tests.outbox.factories import A, FakeKind, given_destination, message_rows
from tests.relay.conftest import MakeRelay, eventually, running

MESSAGES = 5000
KEYS = 20
SOON = Exponential(base_seconds=0.02, cap_seconds=0.1, attempts=50)
DEADLINE_SECONDS = 300.0


class Arrivals(FakeKind):
    """Notes what arrives for each key, and answers as told."""

    def __init__(self, answer: Callable[[Claim], Outcome]) -> None:
        super().__init__(answer, SOON)
        self.attempts: list[tuple[str, int]] = []
        self.arrived: defaultdict[str, list[int]] = defaultdict(list)

    async def deliver(self, claim: Claim) -> Outcome:
        await asyncio.sleep(0)
        assert claim.sequence is not None
        key = claim.type.removeprefix("key.")
        outcome = self.answer(claim)
        self.attempts.append((key, claim.sequence))
        if isinstance(outcome, Delivered):
            self.arrived[key].append(claim.sequence)
        return outcome

    @property
    def count(self) -> int:
        return sum(map(len, self.arrived.values()))

    @property
    def out_of_order(self) -> int:
        """Arrivals with a lower sequence than one that had arrived before them."""
        return sum(
            number < max(line[:position])
            for line in self.arrived.values()
            for position, number in enumerate(line)
            if position
        )


def sometimes(share: float, seed: int = 1) -> Callable[[Claim], Outcome]:
    random = Random(seed)
    failed = Failed(ErrorKind.STATUS, "answered 500")
    return lambda claim: failed if random.random() < share else Delivered()


def parking(*numbers: int) -> Callable[[Claim], Outcome]:
    refused = Failed(ErrorKind.STATUS, "answered 404", park=ParkedReason.REJECTED)
    return lambda claim: refused if claim.sequence in numbers else Delivered()


async def given_order(database: Database, ordering: Ordering, gap_seconds: float = 60.0) -> None:
    await given_destination(database)
    async with database.transaction() as session:
        await set_order(session, A, Order(ordering, gap_seconds))


async def given_keyed(database: Database, count: int, keys: int) -> None:
    """Messages of several keys, mixed; the type tells the key."""
    names = [f"k{number % keys}" for number in range(count)]
    batch = [Event(type=f"key.{name}", data=None, ordering_key=name) for name in names]
    for start in range(0, count, 500):
        async with database.transaction() as session:
            await publish_all(session, batch[start : start + 500])


async def test_g10_nothing_arrives_out_of_order_though_one_in_ten_attempts_fails(
    database: Database, make_relay: MakeRelay
):
    """20 keys under `strict`; half of it is published while the relay works."""
    await given_order(database, Ordering.STRICT)
    await given_keyed(database, MESSAGES // 2, KEYS)
    kind = Arrivals(sometimes(0.1))
    async with running(make_relay({"test": kind}, poll_seconds=0.2)):
        await given_keyed(database, MESSAGES - MESSAGES // 2, KEYS)
        await eventually(lambda: kind.count >= MESSAGES, DEADLINE_SECONDS)
    whole = list(range(1, MESSAGES // KEYS + 1))
    assert kind.arrived == {f"k{number}": whole for number in range(KEYS)}
    assert kind.out_of_order == 0
    assert len(kind.attempts) > MESSAGES * 1.05


async def test_g10_two_relays_keep_the_order_too(postgresql_url: str):
    """What one has out, the other waits for."""
    settings = settings_of(postgresql_url)
    databases = [Database(settings) for _ in range(2)]
    count = MESSAGES // 10
    await given_order(databases[0], Ordering.STRICT)
    kind = Waiting(sometimes(0.1, seed=2))
    relays = [
        Relay(database, {"test": kind}, settings, RelayMetrics(CollectorRegistry()))
        for database in databases
    ]
    runs = [asyncio.create_task(relay.run()) for relay in relays]
    try:
        await given_keyed(databases[0], count, KEYS)
        await eventually(lambda: all(relay.counts.claimed for relay in relays), DEADLINE_SECONDS)
        kind.both_have_some.set()
        await eventually(lambda: kind.count >= count, DEADLINE_SECONDS)
    finally:
        kind.both_have_some.set()
        for relay in relays:
            relay.stop()
        await asyncio.gather(*runs)
        for database in databases:
            await database.dispose()
    assert kind.arrived == {f"k{n}": list(range(1, count // KEYS + 1)) for n in range(KEYS)}


class Waiting(Arrivals):
    """Answers nobody before both relays have something out."""

    def __init__(self, answer: Callable[[Claim], Outcome]) -> None:
        super().__init__(answer)
        self.both_have_some = asyncio.Event()

    async def deliver(self, claim: Claim) -> Outcome:
        """Wait, then answer."""
        await self.both_have_some.wait()
        return await super().deliver(claim)


def settings_of(url: str) -> Settings:
    from tests.conftest import settings_for

    return settings_for(url, APP_POLL_SECONDS="0.2")


async def test_g10_strict_a_parked_message_blocks_its_key_alone_until_it_is_dismissed(
    database: Database, make_relay: MakeRelay, registry: CollectorRegistry
):
    """The others go on; what waits is counted."""
    await given_order(database, Ordering.STRICT)
    await given_keyed(database, 12, 2)
    kind = Arrivals(lambda claim: parking(3)(claim) if claim.type == "key.k0" else Delivered())
    async with running(make_relay({"test": kind}, poll_seconds=0.1)):
        await eventually(lambda: kind.count >= 8)
        assert kind.arrived == {"k0": [1, 2], "k1": [1, 2, 3, 4, 5, 6]}
        async with database.read() as session:
            assert (await stats(session)).parked == 1
        (parked,) = [r for r in await message_rows(database) if r["status"] == "parked"]
        async with database.transaction() as session:
            await dismiss(session, parked["id"], "of no use any more")
        await eventually(lambda: kind.count >= 11)
    assert kind.arrived["k0"] == [1, 2, 4, 5, 6]
    assert registry.get_sample_value("relay_gaps_total", {"policy": "strict"}) is None


async def test_g10_strict_a_retried_message_goes_before_those_that_wait_for_it(
    database: Database, make_relay: MakeRelay
):
    """Mended by hand, the whole key arrives in order."""
    await given_order(database, Ordering.STRICT)
    await given_keyed(database, 6, 1)
    broken = [True]
    kind = Arrivals(lambda claim: parking(2)(claim) if broken[0] else Delivered())
    async with running(make_relay({"test": kind}, poll_seconds=0.1)):
        await eventually(lambda: ("k0", 2) in kind.attempts)
        broken[0] = False
        parked = []
        async with asyncio.timeout(60):
            while not parked:
                rows = await message_rows(database)
                parked = [r["id"] for r in rows if r["status"] == "parked"]
        async with database.transaction() as session:
            await retry(session, parked[0])
        await eventually(lambda: kind.count >= 6)
    assert kind.arrived["k0"] == [1, 2, 3, 4, 5, 6]


async def test_g10_skip_goes_on_at_once_and_counts_the_gap(
    database: Database, make_relay: MakeRelay, registry: CollectorRegistry
):
    """A message that is parked is passed by each that comes after it."""
    await given_order(database, Ordering.SKIP)
    await given_keyed(database, 5, 1)
    kind = Arrivals(parking(2))
    with gaps(registry, "skip") as counted:
        async with running(make_relay({"test": kind}, poll_seconds=0.1)):
            await eventually(lambda: kind.count >= 4)
    assert kind.arrived["k0"] == [1, 3, 4, 5]
    assert counted() == 3


async def test_g10_yield_goes_on_after_the_gap_and_counts_it(
    database: Database, make_relay: MakeRelay, registry: CollectorRegistry
):
    """Half a second instead of a minute."""
    await given_order(database, Ordering.YIELD, gap_seconds=0.5)
    await given_keyed(database, 4, 1)
    kind = Arrivals(parking(1))
    with gaps(registry, "yield") as counted:
        async with running(make_relay({"test": kind}, poll_seconds=0.1)):
            await eventually(lambda: kind.count >= 3)
    assert kind.arrived["k0"] == [2, 3, 4]
    assert counted() == 3


@contextmanager
def gaps(registry: CollectorRegistry, policy: str) -> Iterator[Callable[[], float]]:
    """The growth of the counter."""

    def value() -> float:
        return registry.get_sample_value("relay_gaps_total", {"policy": policy}) or 0.0

    before = value()
    yield lambda: value() - before


async def test_g10_each_failed_attempt_is_repeated_before_the_next_message(
    database: Database, make_relay: MakeRelay
):
    """The attempts themselves are in order, not only what arrives."""
    await given_order(database, Ordering.STRICT)
    await given_keyed(database, 40, 2)
    kind = Arrivals(sometimes(0.3, seed=3))
    async with running(make_relay({"test": kind}, poll_seconds=0.1)):
        await eventually(lambda: kind.count >= 40)
    for key in ("k0", "k1"):
        tried = [number for name, number in kind.attempts if name == key]
        assert tried == sorted(tried)
    assert max(Counter(kind.attempts).values()) > 1
