"""What the commands of `endpoints` do; loaded when one of them runs.

Invariant: a secret is written only after the key that encrypts it is proven to be the database's,
else the relay could never read it. Each change is audited in its own transaction.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import typer
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.audit import audit
from app.cipher import Cipher, check_sentinel
from app.cli.output import columns, note, print_items, print_json, print_record
from app.cli.runtime import actor, open_database, settings_of_command
from app.config import Settings
from app.webhooks import endpoints as service
from app.webhooks.endpoint import Endpoint, EndpointCreate, EndpointUpdate
from app.webhooks.ping import test_endpoint
from app.webhooks.schemes import Signature

SHOWN = columns("id", "url", "types", "tenant", "status")


@asynccontextmanager
async def _writing_secrets() -> AsyncGenerator[tuple[AsyncSession, Cipher, Settings]]:
    settings = settings_of_command()
    cipher = Cipher.of(settings)
    async with open_database(settings) as database:
        await check_sentinel(database, cipher)
        async with database.transaction() as session:
            yield session, cipher, settings


@asynccontextmanager
async def _writing() -> AsyncGenerator[AsyncSession]:
    async with (
        open_database(settings_of_command()) as database,
        database.transaction() as session,
    ):
        yield session


async def create(wanted: EndpointCreate, tenant: str, *, as_json: bool) -> None:
    """Add an endpoint and show its secret."""
    async with _writing_secrets() as (session, cipher, settings):
        made = await service.create_endpoint(session, cipher, settings, wanted, tenant)
        await audit(session, actor(), "endpoint.create", str(made.id), tenant=tenant)
    print_record(made, as_json=as_json)
    note("the secret is not shown again: give it to the receiver now")


async def change(endpoint_id: UUID, wanted: EndpointUpdate, *, as_json: bool) -> None:
    """Change what is given and show the endpoint."""
    async with _writing_secrets() as (session, cipher, settings):
        endpoint = await service.update_endpoint(session, cipher, settings, endpoint_id, wanted)
        await audit(session, actor(), "endpoint.update", str(endpoint_id))
    print_record(endpoint, as_json=as_json)


async def print_all(tenant: str | None, *, as_json: bool) -> None:
    """Every endpoint of the tenant, or of all."""
    async with open_database(settings_of_command()) as database, database.read() as session:
        found = await service.list_endpoints(session, tenant)
    print_items(found, SHOWN, as_json=as_json)


async def print_one(endpoint_id: UUID, *, as_json: bool) -> None:
    """One endpoint."""
    async with open_database(settings_of_command()) as database, database.read() as session:
        endpoint = await service.get_endpoint(session, endpoint_id, None)
    print_record(endpoint, as_json=as_json)


async def ping(endpoint_id: UUID, *, as_json: bool) -> None:
    """Test an endpoint; exit 1 if the ping was not taken."""
    settings = settings_of_command()
    cipher = Cipher.of(settings)
    async with open_database(settings) as database:
        report = await test_endpoint(database, cipher, settings, endpoint_id)
    print_record(report, as_json=as_json)
    if not report.delivered:
        raise typer.Exit(1)


async def rotate(
    endpoint_id: UUID, overlap_seconds: float, signature: Signature | None, *, as_json: bool
) -> None:
    """A new secret."""
    async with _writing_secrets() as (session, cipher, _):
        rotated = await service.rotate_secret(
            session, cipher, endpoint_id, overlap_seconds, signature=signature
        )
        await audit(
            session, actor(), "endpoint.rotate", str(endpoint_id), overlap_seconds=overlap_seconds
        )
    print_record(rotated, as_json=as_json)
    note("the secret is not shown again: give it to the receiver now")


async def disable(endpoint_id: UUID, reason: str, *, as_json: bool) -> None:
    """Stop sending."""
    async with _writing() as session:
        endpoint = await service.disable_endpoint(session, endpoint_id, reason)
        await audit(session, actor(), "endpoint.disable", str(endpoint_id), reason=reason)
    _say(endpoint, as_json=as_json)


async def enable(endpoint_id: UUID, *, as_json: bool) -> None:
    """Send again."""
    async with _writing() as session:
        endpoint = await service.enable_endpoint(session, endpoint_id)
        await audit(session, actor(), "endpoint.enable", str(endpoint_id))
    _say(endpoint, as_json=as_json)


async def delete(endpoint_id: UUID, *, as_json: bool) -> None:
    """Delete for good."""
    async with _writing() as session:
        endpoint = await service.delete_endpoint(session, endpoint_id)
        await audit(session, actor(), "endpoint.delete", str(endpoint_id))
    _say(endpoint, as_json=as_json)


def _say(endpoint: Endpoint, *, as_json: bool) -> None:
    if as_json:
        print_json(endpoint)
    note(f"endpoint {endpoint.id} is {endpoint.status}")
