"""The relay's memory of destinations, without a database."""

import asyncio
from uuid import UUID, uuid4

import pytest

from app.outbox.message import Claim
from app.outbox.store import Claimed, Reclaimed, Wanted
from app.relay.lanes import Lanes


def claims(destination: str, count: int) -> Claimed:
    return Claimed(
        [
            Claim(
                uuid4(), uuid4(), "a.b", "", destination, UUID(int=1), 1, 0, 0.0, b"{}",
                None, False, 0.0,
            )
            for _ in range(count)
        ],
        [],
        {},
    )  # fmt: skip


def given(lanes: Lanes, destination: str, count: int) -> None:
    """A destination that is woken and gives that many."""
    lanes.wake([destination])
    lanes.add(lanes.plan(1.0), claims(destination, count), 1.0)


async def test_a_woken_destination_is_asked_for_as_many_as_it_may_have_in_flight():
    """No more: what waits in memory holds a lease."""
    lanes = Lanes(64, 8, 250)
    lanes.wake(["a", "b"])
    assert {(w.destination, w.slots) for w in lanes.plan(1.0).wanted} == {("a", 8), ("b", 8)}
    assert lanes.plan(1.0).wanted == []


async def test_the_relay_is_never_asked_for_more_than_it_can_send():
    """The sum of all slots is the concurrency, while nothing is known about speed."""
    lanes = Lanes(10, 8, 250)
    lanes.wake(["a", "b", "c"])
    assert lanes.plan(1.0).limit == 10


async def test_a_destination_that_gave_all_it_was_asked_is_asked_again_after_the_others():
    """Rotation: no destination is served twice before another that waits."""
    lanes = Lanes(8, 8, 250)
    lanes.wake(["a"])
    lanes.add(lanes.plan(1.0), claims("a", 8), 1.0)
    lanes.wake(["b"])
    assert lanes.plan(1.0).wanted == [], "full"
    for _ in range(8):
        lanes.done(await lanes.take())
    assert [w.destination for w in lanes.plan(1.0001).wanted] == ["b", "a"]


async def test_a_destination_that_gave_less_is_not_asked_until_it_is_woken():
    """It has no more; a reclaimed row counts as given."""
    lanes = Lanes(64, 8, 250)
    given(lanes, "a", 3)
    assert not lanes.hungry
    lanes.wake(["a"])
    plan = lanes.plan(1.0)
    assert plan.wanted == [Wanted("a", 5)]
    lost = Claimed([], [Reclaimed(uuid4(), "a", 1, False, uuid4(), "a.b", "")] * 5, {})
    lanes.add(plan, lost, 1.0)
    assert lanes.hungry


async def test_a_wake_up_during_a_claim_is_not_forgotten():
    """The claim may have looked before the new message was committed."""
    lanes = Lanes(64, 8, 250)
    lanes.wake(["a"])
    plan = lanes.plan(1.0)
    lanes.wake(["a"])
    lanes.add(plan, claims("a", 0), 1.0)
    assert lanes.changed.is_set()
    assert [w.destination for w in lanes.plan(1.0).wanted] == ["a"]


async def test_no_destination_exceeds_its_limit_in_flight():
    """Two lanes with a limit of 2: four start, the fifth waits for a free slot of its own lane."""
    lanes = Lanes(64, 2, 250)
    for destination in ("a", "b"):
        lanes.wake([destination])
        lanes.add(lanes.plan(1.0), claims(destination, 5), 1.0)
    started = [await lanes.take() for _ in range(4)]
    assert sorted(held.claim.destination for held in started) == ["a", "a", "b", "b"]
    waiting = asyncio.create_task(lanes.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    lanes.done(next(held for held in started if held.claim.destination == "b"))
    assert (await lanes.take()).claim.destination == "b"


async def test_a_destination_with_nothing_in_flight_goes_first():
    """A fresh message does not queue behind the backlog of others."""
    lanes = Lanes(64, 8, 250)
    given(lanes, "busy", 8)
    await lanes.take()
    given(lanes, "fresh", 1)
    assert (await lanes.take()).claim.destination == "fresh"


async def test_a_fast_destination_may_keep_more_in_memory_than_a_slow_one():
    """As much as its own speed works off while the next claim is under way."""
    lanes = Lanes(64, 8, 250)
    for destination, seconds in (("fast", 1 / 128), ("slow", 2.0)):
        given(lanes, destination, 8)
        for _ in range(7):
            lanes.done(await lanes.take())
        lanes.wake([destination])
        [wanted] = lanes.plan(1.0 + seconds).wanted
        assert wanted.slots == (7 + 44 if destination == "fast" else 7)
        lanes.done(await lanes.take())


async def test_a_due_time_wakes_its_destination_and_not_before():
    """Also tells when the next one is."""
    lanes = Lanes(64, 8, 250)
    lanes.wake_at(10.0, "a")
    lanes.wake_at(20.0, "b")
    assert lanes.wake_due(9.9) == pytest.approx(10.0, abs=0.01)
    assert not lanes.hungry
    assert lanes.wake_due(10.1) == pytest.approx(20.0, abs=0.01)
    assert [w.destination for w in lanes.plan(10.1).wanted] == ["a"]


async def test_what_is_withdrawn_is_never_started():
    """At the end of a relay."""
    lanes = Lanes(64, 2, 250)
    given(lanes, "a", 5)
    await lanes.take()
    assert len(lanes.withdraw()) == 4
    assert lanes.held == 1


async def test_a_claim_that_failed_is_asked_for_again():
    """Nothing is known about what it would have brought."""
    lanes = Lanes(64, 8, 250)
    lanes.wake(["a"])
    lanes.put_back(lanes.plan(1.0))
    assert lanes.plan(1.0).wanted == [Wanted("a", 8)]


async def test_whoever_was_asked_and_not_served_comes_first_next_time():
    """The limit cut the claim: nothing is known about those behind."""
    lanes = Lanes(8, 4, 250)
    lanes.wake(["a", "b", "c"])
    plan = lanes.plan(1.0)
    assert [w.destination for w in plan.wanted] == ["a", "b", "c"]
    both = Claimed(claims("a", 4).claims + claims("b", 4).claims, [], {})
    lanes.add(plan, both, 1.0)
    for _ in range(8):
        lanes.done(await lanes.take())
    assert [w.destination for w in lanes.plan(1.0001).wanted] == ["c", "b", "a"]


async def test_quiet_destinations_and_busy_ones_are_asked_by_turns():
    """Neither starves the other."""
    lanes = Lanes(64, 4, 250)
    lanes.wake(["busy1", "busy2"])
    both = Claimed(claims("busy1", 4).claims + claims("busy2", 4).claims, [], {})
    lanes.add(lanes.plan(1.0), both, 1.0)
    for _ in range(4):
        lanes.done(await lanes.take())
    lanes.wake(["q1", "q2"])
    kinds = [w.destination[0] for w in lanes.plan(1.0001).wanted]
    assert kinds in (["q", "b", "q", "b"], ["q", "b", "q"])


async def test_a_database_slow_to_settle_is_not_asked_for_more():
    """What is held without being settled is bounded."""
    lanes = Lanes(64, 8, 250)
    lanes.wake(["a"])
    assert lanes.plan(1.0, unsettled=64 + 4 * 250).wanted == []
    assert lanes.plan(1.0, unsettled=64).wanted == [Wanted("a", 8)]
