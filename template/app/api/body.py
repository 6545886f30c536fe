"""Request bodies: bytes to the handler's type, strictly. Used for every handler (`dto` in wiring).

Invariant: what reaches a handler has exactly the declared types (`"5"` is no number), no unknown
field, and no text that a database cannot store. The framework's own way converts leniently and
does not tell where. Pages post forms: those are converted leniently, everything in them is text.
"""

import math
from collections.abc import Generator
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin

import msgspec
from litestar import Request
from litestar.dto import AbstractDTO
from litestar.dto.data_structures import DTOFieldDefinition
from litestar.typing import FieldDefinition

from app.errors import BadRequest, UnsupportedMedia

NUL = "\x00"
OUT_OF_RANGE = "out of range"  # the decoder's words; its path leaves the names out
ESCAPED_NUL = b"\\u0000"  # JSON has no other way to write it


class Body(AbstractDTO[Any]):
    """Decodes and checks a body; describes it in the OpenAPI document by its own type."""

    __slots__ = ()
    model_type = object
    _types: ClassVar[dict[str, Any]] = {}

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """Remember the type that a handler declares."""
        cls._types[handler_id] = field_definition.annotation

    @classmethod
    def reads(cls, handler_id: str) -> bool:
        """Whether a handler declares a body."""
        return handler_id in cls._types

    @property
    def _type(self) -> Any:
        return self._types[self.asgi_connection.route_handler.handler_id]

    def decode_bytes(self, value: bytes) -> Any:
        """The body as the handler's type. Raises `BadRequest` naming field and rule."""
        kind = self.asgi_connection.headers.get("content-type", "application/json")
        media = kind.partition(";")[0].strip().lower()
        if media != "application/json" and not media.endswith("+json"):
            raise UnsupportedMedia(
                f"the body is {media!r}; this address reads application/json",
                hint="send the header Content-Type: application/json",
            )
        return decode(value, self._type)

    def decode_builtins(self, value: dict[str, Any]) -> Any:
        """A form as the handler's type."""
        try:
            data = msgspec.convert(value, self._type, strict=False)
        except msgspec.ValidationError as error:
            raise BadRequest(f"the form does not fit: {error}") from None
        refuse_nul(value)
        return data

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: Any
    ) -> Any:
        """The schema of the declared type."""
        return schema_creator.for_field_definition(field_definition)

    @classmethod
    def generate_field_definitions(
        cls, model_type: type[Any]
    ) -> Generator[DTOFieldDefinition, None, None]:
        """Not used: the type itself is decoded, no transfer model is made."""
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        """Not used, see above."""
        return False


async def refuse_unread(request: Request[Any, Any, Any]) -> None:
    """Raise `BadRequest` for a body that no handler reads: better told than ignored."""
    if request.method in ("GET", "HEAD") or Body.reads(request.route_handler.handler_id):
        return
    if (await request.body()).strip() not in (b"", b"{}"):
        raise BadRequest("this address reads no body", hint="leave the body out")


def decode(body: bytes, kind: Any) -> Any:
    """JSON bytes as `kind`. Raises `BadRequest` with the path of the first rule they break."""
    try:
        value = msgspec.json.decode(body, type=_member(body, kind))
        if ESCAPED_NUL in body:
            refuse_nul(msgspec.json.decode(body))
    except msgspec.ValidationError as error:
        if OUT_OF_RANGE in str(error):
            _refuse_out_of_range(body)
        raise BadRequest(f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    return value


def _member(body: bytes, kind: Any) -> Any:
    """Of a union of Structs the one that has most of the fields that are there; else `kind`."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    names = set(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    return max(get_args(kind), key=lambda struct: len(names & set(struct.__struct_fields__)))


def _refuse_out_of_range(body: bytes) -> None:
    """Name the number, if it can be read as a double at all; thousands of digits can't."""
    try:
        value = msgspec.json.Decoder(float_hook=float).decode(body)
    except msgspec.ValidationError:
        raise BadRequest("the body has a number with too many digits") from None
    _refuse_infinite(value)


def _refuse_infinite(value: Any, path: str = "$") -> None:
    match value:
        case float() if math.isinf(value):
            raise BadRequest(f"{path}: the number is beyond what a double can hold")
        case dict():
            for key, item in value.items():
                _refuse_infinite(item, f"{path}.{key}")
        case list():
            for index, item in enumerate(value):
                _refuse_infinite(item, f"{path}[{index}]")
        case _:
            pass


def refuse_nul(value: Any, path: str = "$") -> None:
    """Raise `BadRequest` when a text anywhere in `value` has the character U+0000."""
    match value:
        case str():
            if NUL in value:
                raise BadRequest(
                    f"{path}: the text has the character U+0000, which can't be stored"
                )
        case dict():
            for key, item in value.items():
                refuse_nul(key, f"{path} (a name)")
                refuse_nul(item, f"{path}.{key}")
        case list():
            for index, item in enumerate(value):
                refuse_nul(item, f"{path}[{index}]")
        case _:
            pass
