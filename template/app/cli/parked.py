"""`parked`, `retry`, `dismiss`: what waits for a person, and the two ways out of it.

Invariant: each retry and dismissal is audited with `cli:<user>` in the transaction that makes it.
Several ids are several transactions: one that fails leaves the others done, and is said. A filter
is several transactions too, each with its entry.
"""

from typing import Annotated
from uuid import UUID

import typer

from app.cli.options import (
    Cursor,
    DryRun,
    EndpointFilter,
    Json,
    Limit,
    PerSecond,
    Reason,
    Tenant,
    Type,
)
from app.cli.runtime import wait_for
from app.errors import UsageError
from app.outbox.message import Status

Ids = Annotated[list[UUID] | None, typer.Argument(metavar="ID", help="Ids of parked messages.")]


def parked(
    event_type: Type = None,
    endpoint: EndpointFilter = None,
    reason: Reason = None,
    tenant: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List the messages that wait for a person, the last parked first."""
    from app.cli.listing import print_messages
    from app.outbox.messages import MessageFilter

    wanted = MessageFilter(
        status=Status.PARKED, type=event_type, endpoint_id=endpoint, tenant=tenant, reason=reason
    )
    wait_for(print_messages(wanted, limit, cursor, as_json=as_json, parked=True))


def retry(
    ids: Ids = None,
    every: Annotated[bool, typer.Option("--all", help="All that the filters leave.")] = False,
    event_type: Type = None,
    endpoint: EndpointFilter = None,
    reason: Reason = None,
    tenant: Tenant = None,
    per_second: PerSecond = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Try parked messages again.

    Each keeps its id and gets a whole new ladder; the count of its attempts goes on. Interrupted,
    the same command goes on where it was.
    """
    from app.cli.people import retry_many, retry_matching
    from app.outbox.messages import MessageFilter

    wanted = MessageFilter(type=event_type, endpoint_id=endpoint, tenant=tenant, reason=reason)
    narrowed = dry_run or per_second is not None or wanted != MessageFilter()
    if bool(ids) == every or (ids and narrowed):
        raise UsageError(
            "retry takes either ids, or --all with filters",
            hint="--all --dry-run says how many it would be",
        )
    if ids:
        wait_for(retry_many(ids, as_json=as_json))
    else:
        wait_for(retry_matching(wanted, per_second, dry_run=dry_run, as_json=as_json))


def dismiss(
    ids: Annotated[list[UUID], typer.Argument(metavar="ID", help="Ids of parked messages.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the audit log.")],
    as_json: Json = False,
) -> None:
    """Close parked messages without delivery."""
    from app.cli.people import dismiss_many

    wait_for(dismiss_many(ids, reason, as_json=as_json))
