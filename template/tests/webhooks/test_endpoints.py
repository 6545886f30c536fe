"""Endpoints as people manage them: rules at write, tenants, secrets, versions."""

from contextlib import suppress
from uuid import UUID

import pytest
from sqlalchemy import func, select

from app.cipher import Cipher
from app.errors import BadRequest, Conflict, NotFound
from app.ids import uuid7
from app.outbox.message import webhook_destination
from app.outbox.policy import DEFAULT_POLICY, Exponential, Ladder
from app.outbox.tables import subscriptions
from app.webhooks.endpoint import (
    EndpointCreate,
    EndpointUpdate,
)
from app.webhooks.endpoints import (
    create_endpoint,
    delete_endpoint,
    disable_endpoint,
    enable_endpoint,
    get_endpoint,
    list_endpoints,
    rotate_secret,
    update_endpoint,
)
from app.webhooks.secrets import decode_secret
from app.webhooks.state import disable_gone
from app.webhooks.tables import endpoint_secrets, endpoints
from tests.conftest import SECRET

CIPHER = Cipher(SECRET)


async def make(database, settings, tenant: str = "", **fields):
    given = {"url": "https://example.com/hook", "types": ["order.*"]} | fields
    async with database.transaction() as session:
        return await create_endpoint(session, CIPHER, settings, EndpointCreate(**given), tenant)


async def count(database, table) -> int:
    async with database.read() as session:
        return (await session.execute(select(func.count()).select_from(table))).scalar_one()


async def version_of(database, endpoint_id: UUID) -> int:
    async with database.read() as session:
        query = select(endpoints.c.version).where(endpoints.c.id == endpoint_id)
        return (await session.execute(query)).scalar_one()


async def test_a_new_endpoint_shows_its_secret_once_and_stores_it_encrypted(database, settings):
    """The secret is in the answer to the creation and nowhere else in clear."""
    made = await make(database, settings, description="shop", types=["b.*", "a", "a"])
    assert made.types == ("a", "b.*")
    assert (made.status, made.retry, made.timeout_seconds) == ("enabled", DEFAULT_POLICY, None)
    async with database.read() as session:
        shown = await get_endpoint(session, made.id)
        stored = (await session.execute(select(endpoint_secrets.c.ciphertext))).scalar_one()
    assert not hasattr(shown, "secret")
    assert decode_secret(made.secret) not in stored
    assert CIPHER.decrypt(stored) == decode_secret(made.secret)
    assert shown.created_at.tzinfo is not None


async def test_what_is_refused_stores_nothing_and_changes_nothing(database, settings):
    """Neither a row nor a version."""
    good = await make(database, settings)
    with pytest.raises(BadRequest):
        await make(database, settings, types=[])
    with pytest.raises(BadRequest, match="tenant"):
        await make(database, settings, tenant="x" * 129)
    wanted = EndpointUpdate(description="new", timeout_seconds=99.0)
    async with database.transaction() as session:
        with pytest.raises(BadRequest, match="timeout_seconds"):
            await update_endpoint(session, CIPHER, settings, good.id, wanted)
    assert await count(database, endpoints) == 1
    async with database.read() as session:
        assert (await get_endpoint(session, good.id)).description == ""
    assert await version_of(database, good.id) == 1


async def test_the_longest_timeout_is_the_lease_less_its_margin(database, settings):
    """58 s under a lease of 60 s is allowed; a request may not outlive its lease."""
    assert (await make(database, settings, timeout_seconds=58.0)).timeout_seconds == 58.0


@pytest.mark.parametrize(
    "policy",
    [
        Exponential(base_seconds=1, cap_seconds=60, attempts=3, jitter=0, max_age_seconds=3600),
        Ladder(delays_seconds=(60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)),
    ],
)
async def test_a_policy_comes_back_as_it_was_given(database, settings, policy):
    """Both kinds survive the round trip; null goes back to the default."""
    made = await make(database, settings, retry=policy)
    assert made.retry == policy
    async with database.transaction() as session:
        back = await update_endpoint(session, CIPHER, settings, made.id, EndpointUpdate(retry=None))
    assert back.retry == DEFAULT_POLICY


async def test_a_change_keeps_what_is_left_out_and_raises_the_version(database, settings):
    """PATCH semantics; the version tells relays."""
    made = await make(database, settings, description="old", timeout_seconds=5.0)
    wanted = EndpointUpdate(url="https://example.org/new", types=["x.y"])
    async with database.transaction() as session:
        changed = await update_endpoint(session, CIPHER, settings, made.id, wanted)
    assert (changed.url, changed.types) == ("https://example.org/new", ("x.y",))
    assert (changed.description, changed.timeout_seconds) == ("old", 5.0)
    assert await version_of(database, made.id) == 2


async def test_another_tenants_endpoint_looks_as_if_it_did_not_exist(database, settings):
    """Every function, every id; '' is a tenant of its own, not a wildcard."""
    mine = await make(database, settings, tenant="acme")
    for other in ("", "acm", "ACME", "other"):
        async with database.transaction() as session:
            for attempt in (
                get_endpoint(session, mine.id, other),
                update_endpoint(session, CIPHER, settings, mine.id, EndpointUpdate(), other),
                disable_endpoint(session, mine.id, "x", other),
                enable_endpoint(session, mine.id, other),
                delete_endpoint(session, mine.id, other),
                rotate_secret(session, CIPHER, mine.id, 60, other),
                list_endpoints(session, other, before=mine.id),
            ):
                with pytest.raises(NotFound):
                    await attempt
            assert await list_endpoints(session, other) == []
    async with database.read() as session:
        assert [x.id for x in await list_endpoints(session, "acme")] == [mine.id]
        assert [x.id for x in await list_endpoints(session)] == [mine.id]


async def test_an_unknown_id_is_not_found(database):
    """For an operator too."""
    async with database.transaction() as session:
        with pytest.raises(NotFound, match="there is no endpoint"):
            await disable_endpoint(session, uuid7(), "x")


async def test_lists_page_by_the_last_id(database, settings):
    """Newest first; a page starts before the last id of the one before."""
    made = [(await make(database, settings)).id for _ in range(5)]
    async with database.read() as session:
        first = await list_endpoints(session, limit=3)
        rest = await list_endpoints(session, limit=3, before=first[-1].id)
    assert sorted([x.id for x in first + rest]) == sorted(made)
    assert len(rest) == 2


async def test_disable_and_enable_are_repeatable_and_keep_the_first_reason(database, settings):
    """Doing it twice changes nothing the second time."""
    made = await make(database, settings)
    async with database.transaction() as session:
        once = await disable_endpoint(session, made.id, "paused by Ada")
        twice = await disable_endpoint(session, made.id, "again")
    assert (once.status, once.disabled_reason) == ("disabled", "paused by Ada")
    assert once == twice
    assert once.disabled_at is not None
    async with database.transaction() as session:
        await enable_endpoint(session, made.id)
        back = await enable_endpoint(session, made.id)
    assert (back.status, back.disabled_reason, back.disabled_at) == ("enabled", None, None)
    assert await version_of(database, made.id) == 3


async def test_deleting_erases_secrets_and_subscriptions_but_not_the_row(database, settings):
    """The row explains old messages; it can't come back to life."""
    made = await make(database, settings)
    async with database.transaction() as session:
        await delete_endpoint(session, made.id)
        gone = await delete_endpoint(session, made.id)
        assert await list_endpoints(session) == []
        assert [x.id for x in await list_endpoints(session, deleted=True)] == [made.id]
        for attempt in (
            enable_endpoint(session, made.id),
            disable_endpoint(session, made.id, "x"),
            rotate_secret(session, CIPHER, made.id),
            update_endpoint(session, CIPHER, settings, made.id, EndpointUpdate(description="x")),
        ):
            with pytest.raises(Conflict, match="deleted"):
                await attempt
    assert (gone.status, gone.types) == ("deleted", ())
    assert await count(database, endpoint_secrets) == 0
    assert await count(database, subscriptions) == 0


async def test_gone_disables_only_what_was_not_changed_meanwhile(database, settings):
    """A 410 from the old URL must not disable an endpoint that has been moved since."""
    made = await make(database, settings)
    async with database.transaction() as session:
        await update_endpoint(
            session, CIPHER, settings, made.id, EndpointUpdate(url="https://example.net")
        )
        assert not await disable_gone(session, made.id, 1)
        assert await disable_gone(session, made.id, 2)
        assert (await get_endpoint(session, made.id)).disabled_reason == "it answered 410 Gone"


async def test_an_endpoint_made_in_a_failed_transaction_does_not_exist(database, settings):
    """Row, subscriptions and secret commit together or not at all."""
    wanted = EndpointCreate(url="https://example.com", types=["a"])
    with suppress(RuntimeError):
        async with database.transaction() as session:
            await create_endpoint(session, CIPHER, settings, wanted, "")
            raise RuntimeError("later")
    tables = (endpoints, subscriptions, endpoint_secrets)
    assert [await count(database, table) for table in tables] == [0, 0, 0]


def test_the_destination_of_an_endpoint_carries_its_id():
    """`webhook:<id>`."""
    endpoint_id = uuid7()
    assert webhook_destination(endpoint_id) == f"webhook:{endpoint_id}"
