"""Options that several commands share, each declared once so that it reads alike everywhere."""

from typing import Annotated
from uuid import UUID

import typer

from app.outbox.message import ParkedReason

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="PATTERN", help="Only such events: 'order.*'.")
]
EndpointFilter = Annotated[
    UUID | None, typer.Option("--endpoint", metavar="ID", help="Only messages of this endpoint.")
]
Tenant = Annotated[
    str | None, typer.Option(metavar="T", help="Only this tenant; '' is a tenant of its own.")
]
OwnTenant = Annotated[str, typer.Option("--tenant", metavar="T", help="The tenant it belongs to.")]
Reason = Annotated[ParkedReason | None, typer.Option(help="Only messages parked for this reason.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="At most this many.")]
PerSecond = Annotated[
    float | None, typer.Option(metavar="N", help="So many a second become due, not all at once.")
]
Since = Annotated[
    str, typer.Option(metavar="TIME", help="Created at this time or later: 2026-01-31T12:00Z.")
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Created before this time. Without it: now.")
]
Cursor = Annotated[
    str | None, typer.Option(metavar="C", help="Go on after the page that gave this cursor.")
]
EndpointId = Annotated[UUID, typer.Argument(metavar="ID", help="The endpoint's id.")]
