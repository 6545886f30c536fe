"""The event catalogue: what is promised is checked, at start and at each publish."""

from typing import Annotated
from uuid import UUID

import msgspec
import pytest
from msgspec import Meta, Struct
from sqlalchemy import text

from app.db.engine import Database
from app.errors import BadRequest, ConfigError, TooLarge
from app.outbox.catalogue import Catalogue, EventType
from app.outbox.event import Event
from app.outbox.publish import CATALOGUE, publish, publish_all
from tests.outbox.factories import given_destination, message_rows


class Line(Struct, frozen=True):
    """A part of a thing."""

    count: Annotated[int, Meta(ge=1)]


class Thing(Struct, frozen=True):
    """The data of a registered type."""

    id: UUID
    lines: list[Line]


EXAMPLE = Thing(UUID(int=7), [Line(1)])
THING = EventType("some.thing", Thing, EXAMPLE, "Something happened.")


def with_catalogue(database: Database, *, required: bool = False) -> list[None]:
    """The database as wiring makes it; what is returned grows with each unregistered event."""
    counted: list[None] = []
    database.session_info[CATALOGUE] = Catalogue.of(
        [THING], required=required, count_unregistered=lambda: counted.append(None)
    )
    return counted


async def test_an_event_made_by_its_type_carries_name_and_data(database: Database):
    """The typed way: the type checker sees whether the data is of the type's class."""
    with_catalogue(database)
    await given_destination(database)
    event = THING.event(EXAMPLE, tenant="", ordering_key="k")
    async with database.transaction() as session:
        await publish(session, event)
    assert (event.type, event.ordering_key) == ("some.thing", "k")
    async with database.read() as session:
        body = (await session.execute(text("SELECT body FROM events"))).scalar_one()
    assert msgspec.json.decode(body)["data"] == {"id": str(UUID(int=7)), "lines": [{"count": 1}]}


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"id": str(UUID(int=1)), "lines": [{"count": 0}]}, "data.lines[0].count: "),
        ({"id": "x", "lines": []}, "data.id: "),
        ({"id": str(UUID(int=1))}, "data: Object missing required field `lines`"),
        (Thing(UUID(int=1), [Line(1), Line(-1)]), "data.lines[1].count: "),
        (None, "data: "),
        ([], "data: "),
    ],
)
async def test_data_that_does_not_fit_its_type_is_refused_with_the_path(
    database: Database, data: object, named: str
):
    """In code too, also when the class was built around its own rules; nothing is stored."""
    with_catalogue(database)
    await given_destination(database)
    with pytest.raises(BadRequest, match=r"event type some\.thing") as refused:
        async with database.transaction() as session:
            await publish(session, Event(type="some.thing", data=data))
    assert refused.value.message.startswith(named)
    assert await message_rows(database) == []


async def test_in_a_batch_the_path_begins_with_the_events_number(database: Database):
    """Whatever rule is broken."""
    with_catalogue(database)
    good = THING.event(EXAMPLE)
    cases = [
        (Event(type="some.thing", data={}), "events[1].data: "),
        (Event(type="a b", data=1), "events[1].type: "),
        (Event(type="a.b", data={"x": "\x00"}), "events[1].data.x: "),
        (Event(type="a.b", data="x" * 300_000), "events[1].data: "),
    ]
    for bad, named in cases:
        with pytest.raises((BadRequest, TooLarge)) as refused:
            async with database.transaction() as session:
                await publish_all(session, [good, bad])
        assert refused.value.message.startswith(named)


async def test_an_unregistered_type_passes_and_is_counted(database: Database):
    """Unless registered types are required: then it is refused with the names there are."""
    counted = with_catalogue(database)
    async with database.transaction() as session:
        await publish_all(session, [Event(type="a.b", data=1), THING.event(EXAMPLE)])
    assert len(counted) == 1
    with_catalogue(database, required=True)
    with pytest.raises(BadRequest, match=r"'a\.b' is not registered") as refused:
        async with database.transaction() as session:
            await publish(session, Event(type="a.b", data=1))
    assert "some.thing" in refused.value.hint


@pytest.mark.parametrize(
    ("types", "says"),
    [
        ([THING, EventType("some.thing", Line, Line(1), "")], "some.thing is registered twice"),
        ([THING, EventType("some.thing", Thing, EXAMPLE, "", version=2)], "registered twice"),
        ([EventType("some thing", Thing, EXAMPLE, "")], "is not an event type"),
        ([EventType("a.b", Line, Line(0), "")], "data.count: "),
    ],
)
def test_a_promise_that_can_not_be_kept_is_an_error_at_start(types, says: str):
    """A name twice, a name that is none, an example that does not fit."""
    with pytest.raises(ConfigError) as refused:
        Catalogue.of(types)
    assert says in refused.value.message


def test_the_schema_is_that_of_the_class():
    """Rules included; it stands in OpenAPI, in the listing and on the page."""
    assert THING.schema()["$defs"]["Line"]["properties"]["count"] == {
        "type": "integer",
        "minimum": 1,
    }
