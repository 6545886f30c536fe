"""For those who operate it: liveness, readiness, metrics.

Readiness says whether *this* process can take requests.

Invariant: readiness looks at the database and its schema, never at relays, receivers or anything
else outside: an outage there must not take the API out of rotation, which only needs to commit.
"""

import asyncio
from typing import Literal

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler
from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.api.auth import PUBLIC, operators_only, requires
from app.api.problems import AnyRequest, Problem, problem_response
from app.config import Settings
from app.db.engine import Database
from app.db.migrate import SchemaState, schema_state
from app.program import program

DATABASE_SECONDS = 2.0
METRICS = CONTENT_TYPE_LATEST.partition("; charset")[0]  # the framework adds the charset


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


def metrics_route(settings: Settings, registry: CollectorRegistry) -> BaseRouteHandler:
    """`GET /metrics`: open with APP_METRICS_PUBLIC, else for operators' keys with scope `read`."""
    opening = (
        {"opt": PUBLIC}
        if settings.metrics_public
        else {"guards": [requires("read"), operators_only]}
    )

    @get("/metrics", include_in_schema=False, media_type=METRICS, **opening)
    async def metrics() -> bytes:
        return generate_latest(registry)

    return metrics
