"""`messages`: what the outbox holds."""

from typing import Annotated
from uuid import UUID

import typer

from app.cli.options import Cursor, EndpointFilter, Json, Limit, Tenant, Type, Yes
from app.cli.runtime import actor, open_database, settings_of_command, wait_for
from app.config import Settings
from app.outbox.message import Status

commands = typer.Typer(help="Messages of the outbox.", no_args_is_help=True)
MessageId = Annotated[UUID, typer.Argument(metavar="ID", help="The message's id.")]


@commands.command("list")
def list_(
    status: Annotated[Status | None, typer.Option(help="Only messages in this state.")] = None,
    event_type: Type = None,
    endpoint: EndpointFilter = None,
    tenant: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List messages, newest first."""
    from app.cli.listing import print_messages
    from app.outbox.messages import MessageFilter

    wanted = MessageFilter(status=status, type=event_type, endpoint_id=endpoint, tenant=tenant)
    wait_for(print_messages(wanted, limit, cursor, as_json=as_json))


@commands.command()
def show(message_id: MessageId, as_json: Json = False) -> None:
    """Show one message with its attempts and its body."""
    from app.cli.listing import print_message

    wait_for(print_message(message_id, as_json=as_json))


@commands.command()
def stats(tenant: Tenant = None, as_json: Json = False) -> None:
    """Count messages by state, and say how old the oldest pending one is."""
    wait_for(_stats(tenant, as_json=as_json))


async def _stats(tenant: str | None, *, as_json: bool) -> None:
    from app.cli.output import print_record
    from app.outbox.messages import stats as count

    async with open_database(settings_of_command()) as database, database.read() as session:
        counted = await count(session, tenant)
    print_record(counted, as_json=as_json)


@commands.command()
def erase(message_id: MessageId, yes: Yes = False) -> None:
    """Replace the body of a message's event by a tombstone; it can't be undone.

    What was still to be sent of that event is parked as undeliverable.
    """
    from app.cli.output import confirm

    settings = settings_of_command()
    confirm(f"Erase the body of message {message_id} for ever?", yes=yes)
    wait_for(_erase(message_id, settings))


async def _erase(message_id: UUID, settings: Settings) -> None:
    from app.api.audit import audit
    from app.cli.output import note
    from app.outbox.erasure import erase as erase_body

    async with open_database(settings) as database, database.transaction() as session:
        await erase_body(session, message_id)
        await audit(session, actor(), "message.erase", str(message_id))
    note(f"erased the body of message {message_id}")
