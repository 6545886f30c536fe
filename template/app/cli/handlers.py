"""`handlers`: the functions of yours that get events, as this version of the code has them."""

from app.cli.options import Json


def handlers(as_json: Json = False) -> None:
    """List the handlers: event types, how often each is tried, how many messages wait."""
    from app.cli.handlers_work import print_all
    from app.cli.runtime import wait_for

    wait_for(print_all(as_json=as_json))
