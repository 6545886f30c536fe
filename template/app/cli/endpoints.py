"""`endpoints`: where webhooks go, for which event types. What they do is in `endpoint_work.py`."""

from typing import Annotated

import typer

from app.cli.endpoint_options import (
    Auth,
    Certificate,
    Description,
    GapSeconds,
    Headers,
    MaxInFlight,
    NewDescription,
    NewTypes,
    OrderPolicy,
    RatePerSecond,
    Retry,
    SignatureKind,
    TimeoutSeconds,
    Types,
    Url,
)
from app.cli.options import EndpointId, Json, OwnTenant, Tenant, Yes
from app.cli.runtime import wait_for
from app.outbox.message import Ordering
from app.webhooks.schemes import Signature

commands = typer.Typer(help="Webhook endpoints.", no_args_is_help=True)


@commands.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the webhooks go.")],
    types: Types, tenant: OwnTenant = "", description: Description = "",
    timeout_seconds: TimeoutSeconds = None, retry: Retry = None, ordering: OrderPolicy = None,
    gap_seconds: GapSeconds = None, rate_per_second: RatePerSecond = None,
    max_in_flight: MaxInFlight = None, signature: SignatureKind = None, header: Headers = None,
    auth: Auth = None, client_certificate: Certificate = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Add an endpoint; its secret is shown now and never again."""
    from app.cli.credentials_text import auth_from, certificate_from, headers_from
    from app.cli.endpoint_work import create
    from app.cli.retry_text import policy_from
    from app.webhooks.endpoint import EndpointCreate

    wanted = EndpointCreate(
        url=url, types=_patterns(types), description=description, timeout_seconds=timeout_seconds,
        retry=None if retry is None else policy_from(retry), ordering=ordering or Ordering.NONE,
        gap_seconds=gap_seconds, rate_per_second=rate_per_second, max_in_flight=max_in_flight,
        signature=signature or Signature.V1, headers=headers_from(header), auth=auth_from(auth),
        client_certificate=certificate_from(client_certificate),
    )  # fmt: skip
    wait_for(create(wanted, tenant, as_json=as_json))


@commands.command()
def update(
    endpoint_id: EndpointId, url: Url = None, types: NewTypes = None,
    description: NewDescription = None, timeout_seconds: TimeoutSeconds = None,
    retry: Retry = None, ordering: OrderPolicy = None, gap_seconds: GapSeconds = None,
    rate_per_second: RatePerSecond = None, max_in_flight: MaxInFlight = None,
    header: Headers = None, auth: Auth = None, client_certificate: Certificate = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Change an endpoint; what is left out stays, 0 takes a number back."""
    from msgspec import UNSET

    from app.cli.credentials_text import changed_auth, changed_certificate, changed_headers
    from app.cli.endpoint_work import change
    from app.cli.retry_text import changed_number, changed_policy
    from app.webhooks.endpoint import EndpointUpdate

    wanted = EndpointUpdate(
        url=UNSET if url is None else url, types=UNSET if types is None else _patterns(types),
        description=UNSET if description is None else description,
        timeout_seconds=changed_number(timeout_seconds), retry=changed_policy(retry),
        ordering=UNSET if ordering is None else ordering, gap_seconds=changed_number(gap_seconds),
        rate_per_second=changed_number(rate_per_second),
        max_in_flight=changed_number(max_in_flight),
        headers=changed_headers(header), auth=changed_auth(auth),
        client_certificate=changed_certificate(client_certificate),
    )  # fmt: skip
    wait_for(change(endpoint_id, wanted, as_json=as_json))


def _patterns(texts: list[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",")]


@commands.command("list")
def list_(tenant: Tenant = None, as_json: Json = False) -> None:
    """List the endpoints; never their secrets."""
    from app.cli.endpoint_work import print_all

    wait_for(print_all(tenant, as_json=as_json))


@commands.command()
def show(endpoint_id: EndpointId, as_json: Json = False) -> None:
    """Show one endpoint."""
    from app.cli.endpoint_work import print_one

    wait_for(print_one(endpoint_id, as_json=as_json))


@commands.command("test")
def ping(endpoint_id: EndpointId, as_json: Json = False) -> None:
    """Send one signed ping and explain the answer.

    Exit 1 if it was not taken. Nothing is stored and nothing is tried again.
    """
    from app.cli.endpoint_work import ping as work

    wait_for(work(endpoint_id, as_json=as_json))


@commands.command()
def rotate(
    endpoint_id: EndpointId,
    overlap_seconds: Annotated[
        float, typer.Option(metavar="S", help="How long the old secret signs as well.")
    ] = 86_400,
    signature: SignatureKind = None,
    as_json: Json = False,
) -> None:
    """Make a new secret; both sign until the overlap ends.

    With another --signature than before, requests carry both kinds until then.
    """
    from app.cli.endpoint_work import rotate as work

    wait_for(work(endpoint_id, overlap_seconds, signature, as_json=as_json))


@commands.command()
def disable(
    endpoint_id: EndpointId,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; shown to whoever looks.")
    ] = "disabled by hand",
    as_json: Json = False,
) -> None:
    """Stop sending; what is pending is parked."""
    from app.cli.endpoint_work import disable as work

    wait_for(work(endpoint_id, reason, as_json=as_json))


@commands.command()
def enable(endpoint_id: EndpointId, as_json: Json = False) -> None:
    """Send again; what was parked meanwhile waits for `retry`."""
    from app.cli.endpoint_work import enable as work

    wait_for(work(endpoint_id, as_json=as_json))


@commands.command()
def delete(endpoint_id: EndpointId, yes: Yes = False, as_json: Json = False) -> None:
    """Delete for good: secrets go, what is pending is parked."""
    from app.cli.endpoint_work import delete as work
    from app.cli.output import confirm
    from app.cli.runtime import settings_of_command

    settings_of_command()
    confirm(f"Delete endpoint {endpoint_id} and its secrets for ever?", yes=yes)
    wait_for(work(endpoint_id, as_json=as_json))
