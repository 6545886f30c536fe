"""Liveness and readiness. Readiness says whether *this* process can take requests.

Invariant: readiness looks at the database and its schema, never at relays, receivers or anything
else outside: an outage there must not take the API out of rotation, which only needs to commit.
"""

import asyncio
from typing import Literal

from litestar import Response, get
from litestar.di import NamedDependency
from msgspec import Struct

from app.api.auth import PUBLIC
from app.api.problems import AnyRequest, Problem, problem_response
from app.db.engine import Database
from app.db.migrate import SchemaState, schema_state
from app.program import program

DATABASE_SECONDS = 2.0


class Health(Struct, frozen=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


@get("/health/live", opt=PUBLIC, summary="The process runs", tags=["health"])
async def live() -> Health:
    """200 as long as the process answers at all."""
    return Health()


@get("/health/ready", opt=PUBLIC, summary="Requests can be taken", tags=["health"])
async def ready(request: AnyRequest, database: NamedDependency[Database]) -> Response[Health]:
    """200 when the database answers and its schema is the code's; else 503."""
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            schema = await schema_state(database)
    except Exception:
        return _not_ready(request, "the database does not answer", f"run: {program()} check")
    if schema.state != "current":
        return _not_ready(request, describe(schema), f"run: {program()} db upgrade")
    return Response(Health())


def describe(schema: SchemaState) -> str:
    """One sentence on a schema that is not the code's."""
    match schema.state:
        case "empty":
            return "the database has no tables yet"
        case "behind":
            return f"the schema is at revision {schema.current}, the code needs {schema.head}"
        case "ahead":
            return (
                f"the schema is at revision {schema.current}, newer than the code's {schema.head}"
            )
        case "current":
            return f"the schema is at revision {schema.head}"


def _not_ready(request: AnyRequest, detail: str, hint: str) -> Response[Health]:
    problem = Problem(title="Not ready", status=503, detail=detail, hint=hint)
    return problem_response(request, problem, {"Retry-After": "1"})
