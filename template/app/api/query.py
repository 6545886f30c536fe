"""A listing takes no query parameter that it does not read: a misspelt filter would list all.

Invariant: what is known is read from the handler's own signature, so it can't be forgotten there.
"""

from difflib import get_close_matches
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from app.errors import Unprocessable
from app.outbox.event import SHOWN


async def known_query(
    connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
) -> None:
    """A guard after `requires`. Raises `Unprocessable` naming the parameter and the known ones."""
    known = _known(handler)
    for name in connection.query_params:
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            raise Unprocessable(
                f"{name[:SHOWN]!r} is no query parameter of this address; it knows "
                f"{', '.join(known) or 'none'}",
                hint=f"did you mean {nearest[0]}?" if nearest else "leave it out",
            )


def _known(handler: BaseRouteHandler) -> list[str]:
    found = []
    for name, parameter in handler.parsed_fn_signature.parameters.items():
        match parameter.kwarg_definition:
            case QueryParameter(query=alias):
                found.append(alias or name)
            case _:
                pass
    return found
