"""Options of `endpoints add` and `endpoints update`, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

from app.outbox.message import Ordering
from app.webhooks.schemes import Signature

_TYPES_HELP = "Which events: order.paid, 'order.*', '*'; repeatable."
Types = Annotated[list[str], typer.Option(metavar="PATTERN", help=_TYPES_HELP)]
NewTypes = Annotated[list[str] | None, typer.Option("--types", metavar="PATTERN", help=_TYPES_HELP)]
Description = Annotated[str, typer.Option(metavar="TEXT", help="Whose it is.")]
NewDescription = Annotated[
    str | None, typer.Option("--description", metavar="TEXT", help="Whose it is.")
]
Url = Annotated[str | None, typer.Option(metavar="URL", help="Where the webhooks go.")]
TimeoutSeconds = Annotated[
    float | None,
    typer.Option(metavar="S", help="One request; else APP_REQUEST_TIMEOUT_SECONDS."),
]
Retry = Annotated[
    str | None,
    typer.Option(metavar="POLICY", help="Waits as 1m,5m,1h, or JSON as in the API, or default."),
]
RatePerSecond = Annotated[
    float | None, typer.Option(metavar="N", help="At most so many requests a second.")
]
MaxInFlight = Annotated[
    int | None, typer.Option(metavar="N", help="At most so many requests at once.")
]
OrderPolicy = Annotated[
    Ordering | None,
    typer.Option(help="What waits behind a message with the same ordering key that failed."),
]
GapSeconds = Annotated[
    float | None, typer.Option(metavar="S", help="With yield: how long it waits; else 60.")
]
SignatureKind = Annotated[
    Signature | None, typer.Option(help="v1: a shared secret; v1a: ed25519, a public key.")
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'NAME: VALUE'", help="On every request; repeatable; none."),
]
Certificate = Annotated[
    Path | None,
    typer.Option("--client-certificate", help="File: PEM of certificate and key, for TLS."),
]
Auth = Annotated[
    str | None,
    typer.Option(metavar="AUTH", help="'basic USER:PASSWORD', 'bearer TOKEN', none; - reads it."),
]
