"""The OpenAPI document: what the framework derives, made true.

The framework documents errors as its own JSON and forgets that unknown fields are refused. Here
each operation gets the problem+json answers it can give, each strict Struct says so, and every
operation that needs a key says that too. What receivers get comes from the event catalogue.
"""

from typing import Any

from litestar import MediaType, Request, Response, Router
from litestar._openapi.schema_generation import SchemaCreator
from litestar._openapi.schema_generation.plugins.struct import StructSchemaPlugin
from litestar.exceptions import NotFoundException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, Schema, SecurityScheme
from litestar.typing import FieldDefinition

from app.api.auth import PUBLIC
from app.api.catalogue import describe
from app.api.problems import PROBLEM_JSON
from app.outbox.catalogue import Catalogue

KEY = "apiKey"
ANSWERS = {
    "400": "The input is malformed or breaks a rule; nothing was stored.",
    "401": "There is no valid API key on the request.",
    "403": "The key lacks the scope or the tenant.",
    "404": "There is no such thing, or it belongs to another tenant.",
    "405": "The address does not take this method.",
    "409": "The present state of the thing forbids it.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "422": "The input is well-formed and contradicts a rule.",
    "500": "Our fault; the log has more under the instance.",
    "503": "The database does not answer.",
}
WITH_BODY = frozenset({"409", "413", "415", "422"})
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string", "format": "uri-reference"},
        "hint": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "rule"],
                "properties": {"path": {"type": "string"}, "rule": {"type": "string"}},
            },
        },
    },
}


class StrictStructs(StructSchemaPlugin):
    """`additionalProperties: false` for a Struct that refuses unknown fields."""

    def to_openapi_schema(
        self, field_definition: FieldDefinition, schema_creator: SchemaCreator
    ) -> Schema:
        """The framework's schema, and the rule it leaves out."""
        schema = super().to_openapi_schema(field_definition, schema_creator)
        if field_definition.annotation.__struct_config__.forbid_unknown_fields:
            schema.additional_properties = False
        return schema


class Document(JsonRenderPlugin):
    """`/schema/openapi.json`."""

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(media_type=MediaType.JSON)
        self._catalogue = catalogue

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The completed document as JSON."""
        document = complete(openapi_schema)
        describe(self._catalogue, document)
        return self.render_json(request, document)


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Add to every operation the problems it can answer with, and the key it needs."""
    document["components"].setdefault("schemas", {})["Problem"] = PROBLEM_SCHEMA
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    document["paths"] = dict(sorted(document["paths"].items()))
    for path, item in document["paths"].items():
        public = path.startswith("/health")
        for method, operation in item.items():
            codes = _codes(operation, method, public=public)
            if method == "get" and path.startswith("/api/") and not path.endswith("}"):
                codes.add("422")  # a listing refuses query parameters that it does not know
            operation["responses"] |= {
                code: {"description": ANSWERS[code], "content": content} for code in codes
            }
            operation["security"] = [] if public else [{KEY: []}]
    return document


def _codes(operation: dict[str, Any], method: str, *, public: bool) -> set[str]:
    codes = set(ANSWERS)
    if method == "get":
        codes -= WITH_BODY
    if public:
        codes -= {"400", "401", "403", "404"}
    if not operation.get("parameters") and "requestBody" not in operation:
        codes -= {"404", "422"}
    return codes - {"405"}


def _as_problem(response: Response[Any]) -> Response[Any]:
    # The framework answers unknown addresses below /schema with a page of its own.
    if response.status_code == 404:
        raise NotFoundException
    return response


def config(catalogue: Catalogue) -> OpenAPIConfig:
    """The document's head and where it is served; new for each application."""
    return OpenAPIConfig(
        title="API",
        version="1",
        description=(
            "Errors are problem+json (RFC 9457). Send `Authorization: Bearer <key>`; "
            "repeat a POST safely with an `Idempotency-Key`."
        ),
        use_handler_docstrings=True,
        components=Components(
            security_schemes={
                KEY: SecurityScheme(type="http", scheme="bearer", description="API key")
            }
        ),
        render_plugins=[Document(catalogue)],
        openapi_router=Router(
            "/schema",
            route_handlers=[],
            include_in_schema=False,
            opt=PUBLIC,
            after_request=_as_problem,
            dto=None,
        ),
    )
