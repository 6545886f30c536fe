"""`keys`: API keys. Only their hashes are stored, so a key is shown once, when it is made."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from app.cli.options import Json
from app.cli.runtime import actor, open_database, settings_of_command, wait_for

commands = typer.Typer(help="API keys.", no_args_is_help=True)


class Scope(StrEnum):
    """What a key may do; admin includes the others."""

    EVENTS_WRITE = "events:write"
    READ = "read"
    ADMIN = "admin"


@commands.command()
def create(
    scope: Annotated[Scope, typer.Option(help="What it may do; admin includes the others.")],
    tenant: Annotated[
        str | None,
        typer.Option(metavar="T", help="Only this tenant; without it: an operator's key."),
    ] = None,
    description: Annotated[str, typer.Option(help="Who or what uses it.")] = "",
    as_json: Json = False,
) -> None:
    """Make a key; stdout is the key and nothing else. It can't be shown again."""
    wait_for(_create(scope.value, tenant, description, as_json=as_json))


async def _create(scope: str, tenant: str | None, description: str, *, as_json: bool) -> None:
    from app.api.audit import audit
    from app.api.keys import create_key
    from app.cli.output import note, print_json

    async with (
        open_database(settings_of_command()) as database,
        database.transaction() as session,
    ):
        text, key = await create_key(session, scope, tenant, description)
        await audit(session, actor(), "key.create", str(key.id), scope=scope, tenant=tenant)
    if as_json:
        print_json({"key": text, "id": key.id, "scope": scope, "tenant": tenant})
    else:
        print(text, flush=True)
    note(f"key {key.id}, scope {scope}: only its hash is stored, keep the key now")


@commands.command("list")
def list_(as_json: Json = False) -> None:
    """List the keys, revoked ones too; never the keys themselves."""
    wait_for(_list(as_json=as_json))


async def _list(*, as_json: bool) -> None:
    from app.api.keys import list_keys
    from app.cli.output import columns, print_items

    async with open_database(settings_of_command()) as database, database.read() as session:
        keys = await list_keys(session)
    shown = columns("id", "prefix", "scope", "tenant", "description", "last_used_at", "revoked_at")
    print_items(keys, shown, as_json=as_json)


@commands.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(metavar="ID", help="The key's id, see `keys list`.")],
) -> None:
    """Refuse a key from now on."""
    wait_for(_revoke(key_id))


async def _revoke(key_id: UUID) -> None:
    from app.api.audit import audit
    from app.api.keys import revoke_key
    from app.cli.output import note

    async with (
        open_database(settings_of_command()) as database,
        database.transaction() as session,
    ):
        await revoke_key(session, key_id)
        await audit(session, actor(), "key.revoke", str(key_id))
    note(f"revoked key {key_id}")
