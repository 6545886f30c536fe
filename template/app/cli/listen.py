"""`listen`: a receiver on this machine, to see what is sent. Its work is in `listen_work.py`."""

from typing import Annotated

import typer

from app.cli.options import Json

DEFAULT_PORT = 9000


def listen(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0 takes a free one.")
    ] = DEFAULT_PORT,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECRET", envvar="WEBHOOK_SECRET", help="whsec_… or whpk_…; repeatable."
        ),
    ] = None,
    answer: Annotated[
        int, typer.Option(min=200, max=599, metavar="STATUS", help="Answer with this, to see.")
    ] = 204,
    as_json: Json = False,
) -> None:
    """Receive webhooks here, verify them and print each.

    What does not verify is answered 401. It ends with Ctrl-C.
    """
    from app.cli.listen_work import receive

    receive(port, secret or [], answer, as_json=as_json)
