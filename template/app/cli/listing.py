"""Prints messages for `messages`, `parked`, `retry` and `dismiss`; loaded when one of them runs."""

from uuid import UUID

from app.cli.output import columns, note, print_items, print_json, print_record
from app.cli.runtime import open_database, settings_of_command
from app.outbox.endpoint_states import require_endpoint
from app.outbox.messages import MessageFilter, get_message, list_messages

SHOWN = columns("id", "type", "tenant", "status", "attempts", "last_error")
SHOWN_PARKED = columns("id", "type", "tenant", "parked_reason", "attempts", "last_error")
SHOWN_ATTEMPTS = columns("number", "started_at", "outcome", "status_code", "duration_ms", "error")


async def print_messages(
    wanted: MessageFilter, limit: int, cursor: str | None, *, as_json: bool, parked: bool = False
) -> None:
    """One page of messages."""
    async with open_database(settings_of_command()) as database, database.read() as session:
        await require_endpoint(session, wanted.endpoint_id)
        page = await list_messages(session, wanted, limit, cursor)
    shown = SHOWN_PARKED if parked else SHOWN
    print_items(page.items, shown, as_json=as_json, next_cursor=page.next_cursor)
    if page.next_cursor and not as_json:
        note(f"more: --cursor {page.next_cursor}")


async def print_message(message_id: UUID, *, as_json: bool) -> None:
    """One message, its attempts, its body."""
    async with open_database(settings_of_command()) as database, database.read() as session:
        message = await get_message(session, message_id, None)
    if as_json:
        print_json(message)
        return
    print_record(message, as_json=False, leave_out=("attempt_log", "body"))
    print("\nattempts")
    print_items(message.attempt_log, SHOWN_ATTEMPTS, as_json=False)
    print("\nbody")
    print_json(message.body)
