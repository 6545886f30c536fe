"""What every route handler may ask for by name, such as `database: NamedDependency[Database]`."""

from collections.abc import Mapping

from litestar.di import Provide

from app.api.auth import provide_caller
from app.api.idempotency import provide_identity


def provided(values: Mapping[str, object]) -> dict[str, Provide]:
    """The given values by name, and what is computed for each request."""
    given = {name: _always(value) for name, value in values.items()}
    computed = {"caller": Provide(provide_caller), "identity": Provide(provide_identity)}
    return given | computed


def _always(value: object) -> Provide:
    def provide() -> object:
        return value

    return Provide(provide, sync_to_thread=False)
