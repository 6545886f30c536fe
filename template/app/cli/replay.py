"""`replay`: events of the past go out again, as new messages.

Invariant: the replay is stored before its first message is made, so a command that is cut off has
lost nothing: a relay takes the rest.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.cli.options import DryRun, EndpointFilter, Json, PerSecond, Since, Tenant, Type, Until
from app.cli.runtime import actor, open_database, settings_of_command, wait_for
from app.config import Settings
from app.errors import UsageError

if TYPE_CHECKING:
    from app.outbox.replay import ReplayRequest


def replay(
    since: Since,
    until: Until = None,
    event_type: Type = None,
    endpoint: EndpointFilter = None,
    tenant: Tenant = None,
    per_second: PerSecond = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Send events of the past again, as new messages.

    Each endpoint that had a message of such an event gets a new one, with a new webhook-id and the
    same webhook-event-id. With --endpoint it is that endpoint, for every event that it has
    subscribed to. What is still pending is skipped. 100 a second become due unless told otherwise.
    """
    from app.outbox.replay_scan import DEFAULT_PER_SECOND, ReplayRequest

    settings = settings_of_command()
    wanted = ReplayRequest(
        since=_time("--since", since),
        until=datetime.now(UTC) if until is None else _time("--until", until),
        type=event_type,
        endpoint_id=endpoint,
        tenant=tenant,
        per_second=DEFAULT_PER_SECOND if per_second is None else per_second,
    )
    wait_for(_replay(wanted, settings, dry_run=dry_run, as_json=as_json))


def _time(option: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option}: {text[:80]!r} is not a time", hint="for example 2026-01-31T12:00Z"
        ) from None
    if moment.tzinfo is None:
        raise UsageError(f"{option}: {text!r} has no time zone", hint="append Z for UTC")
    return moment


async def _replay(
    wanted: "ReplayRequest", settings: Settings, *, dry_run: bool, as_json: bool
) -> None:
    from app.api.audit import audit
    from app.cli.output import note, print_record
    from app.outbox import replay as outbox_replay

    async with open_database(settings) as database:
        if dry_run:
            report = await outbox_replay.dry_run(database, wanted)
            print_record(report, as_json=as_json)
            return
        async with database.transaction() as session:
            started = await outbox_replay.start(session, wanted, actor())
            await audit(session, actor(), "replay.start", str(started.id), **started.asked())
        note(f"replay {started.id} is stored; if this command is cut off, a relay goes on with it")
        await outbox_replay.run(database, started.id)
        async with database.read() as session:
            print_record(await outbox_replay.find(session, started.id), as_json=as_json)
