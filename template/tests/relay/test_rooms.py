"""Limits of single destinations in the relay's memory: what is claimed, when it is asked again."""

from app.outbox.deliverer import NO_LIMIT, Room
from app.relay.lanes import Lanes
from app.relay.later import Later
from tests.relay.test_lanes import claims


class Rooms:
    """What each destination lets through at present."""

    def __init__(self, **rooms: Room) -> None:
        self.rooms = rooms

    def __call__(self, destination: str) -> Room:
        return self.rooms.get(destination, NO_LIMIT)


async def test_a_destination_at_its_limit_is_not_asked_and_the_others_are():
    """It costs no statement and no place in the claim, and is asked again in time."""
    rooms = Rooms(a=Room(starts=0, seconds=3.0))
    lanes = Lanes(64, 8, 250, rooms)
    lanes.wake(["a", "b"])
    assert [w.destination for w in lanes.plan(1.0).wanted] == ["b"]
    assert not lanes.hungry
    assert lanes.wake_due(3.9) == 4.0
    rooms.rooms["a"] = Room(starts=2)
    lanes.wake_due(4.0)
    assert [(w.destination, w.slots) for w in lanes.plan(4.0).wanted] == [("a", 2)]


async def test_a_thousand_destinations_at_their_limits_cost_the_others_no_turn():
    """None of them takes a place of what is asked at once."""
    rooms = Rooms(**{f"d{n}": Room(starts=0, seconds=1.0) for n in range(1000)})
    lanes = Lanes(64, 8, 250, rooms)
    lanes.wake([*rooms.rooms, "free"])
    assert [w.destination for w in lanes.plan(1.0).wanted] == ["free"]


async def test_what_waits_in_memory_counts_against_the_starts():
    """What is claimed can be started."""
    rooms = Rooms()
    lanes = Lanes(64, 8, 250, rooms)
    lanes.wake(["a"])
    lanes.add(lanes.plan(1.0), claims("a", 8), 1.0)
    rooms.rooms["a"] = Room(in_flight=20, starts=10)
    for _ in range(6):
        await lanes.take()
    lanes.wake(["a"])
    assert lanes.plan(1.0).wanted == [], "2 wait, 6 are in flight"


async def test_a_limit_that_changes_stops_no_lane():
    """Lowered: nothing is started above it. Raised again: what waits is started."""
    rooms = Rooms()
    lanes = Lanes(64, 4, 250, rooms)
    lanes.wake(["a"])
    lanes.add(lanes.plan(1.0), claims("a", 4), 1.0)
    first = [await lanes.take() for _ in range(3)]
    rooms.rooms["a"] = Room(in_flight=1)
    lanes.wake(["a"])
    assert lanes.plan(1.0).wanted == []
    for held in first[:2]:
        lanes.done(held)
    lanes.done(first[2])
    last = await lanes.take()
    rooms.rooms["a"] = NO_LIMIT
    lanes.wake(["a"])
    plan = lanes.plan(1.0)
    lanes.add(plan, claims("a", 2), 1.0)
    assert {id(await lanes.take()), id(await lanes.take())}.isdisjoint({id(last)})


async def test_a_limit_is_looked_at_once_however_often_it_is_woken():
    """Publishers wake a destination with each commit."""
    later = Later()
    assert later.again(5.0, "a")
    assert not any(later.again(5.0 + n, "a") for n in range(100))
    later.add(6.0, "a")
    later.add(7.0, "a")
    assert later.due(5.5) == ["a"]
    assert later.again(8.0, "a")
    assert later.due(9.0) == ["a", "a", "a"]
