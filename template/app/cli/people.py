"""What `retry` and `dismiss` do; loaded when one of them runs."""

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import typer
from msgspec import to_builtins
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.audit import audit
from app.cli.listing import SHOWN
from app.cli.output import note, print_items, print_json
from app.cli.runtime import actor, open_database, settings_of_command
from app.errors import AppError
from app.outbox.bulk_retry import retry_all
from app.outbox.endpoint_states import require_endpoint
from app.outbox.messages import Message, MessageFilter
from app.outbox.messages import dismiss as dismiss_one
from app.outbox.messages import retry as retry_one
from app.program import typed

Act = Callable[[AsyncSession, UUID], Awaitable[Message]]


async def retry_many(ids: Sequence[UUID], *, as_json: bool) -> None:
    """Retry each; exit 1 if one could not be."""

    async def act(session: AsyncSession, message_id: UUID) -> Message:
        message = await retry_one(session, message_id, None)
        await audit(session, actor(), "message.retry", str(message_id))
        return message

    await _each(ids, act, "retried", as_json=as_json)


async def dismiss_many(ids: Sequence[UUID], reason: str, *, as_json: bool) -> None:
    """Dismiss each; exit 1 if one could not be."""

    async def act(session: AsyncSession, message_id: UUID) -> Message:
        message = await dismiss_one(session, message_id, reason, None)
        await audit(session, actor(), "message.dismiss", str(message_id), reason=reason)
        return message

    await _each(ids, act, "dismissed", as_json=as_json)


async def _each(ids: Sequence[UUID], act: Act, done: str, *, as_json: bool) -> None:
    messages, errors = [], []
    async with open_database(settings_of_command()) as database:
        for message_id in dict.fromkeys(ids):
            try:
                async with database.transaction() as session:
                    messages.append(await act(session, message_id))
            except AppError as error:
                if len(ids) == 1 and not as_json:
                    raise
                errors.append({"id": message_id, "error": error.message, "hint": error.hint})
                note(f"error: {message_id}: {error.message}")
                if error.hint:
                    note(f"hint: {typed(error.hint)}")
    if as_json or messages:
        print_items(messages, SHOWN, as_json=as_json, errors=errors)
    note(f"{done} {len(messages)} of {len(messages) + len(errors)}")
    if errors:
        raise typer.Exit(1)


async def retry_matching(
    wanted: MessageFilter, per_second: float | None, *, dry_run: bool, as_json: bool
) -> None:
    """Retry all that match, in small transactions, or only count them."""

    async def record(session: AsyncSession, count: int) -> None:
        detail = {"filter": to_builtins(wanted), "retried": count}
        await audit(session, actor(), "message.retry", "filter", **detail)

    async with open_database(settings_of_command()) as database:
        async with database.read() as session:
            await require_endpoint(session, wanted.endpoint_id)
        report = await retry_all(database, wanted, record, per_second=per_second, dry_run=dry_run)
    if as_json:
        print_json(report)
    elif dry_run:
        print(f"would retry {report.matched}, nothing changed", flush=True)
    else:
        print(f"retried {report.retried} of {report.matched}", flush=True)
    if not dry_run and report.retried < report.matched:
        note(
            "the others' endpoints are disabled or deleted, or their bodies were erased: "
            "enable those, or dismiss these"
        )
