"""The handlers of this application, as publish and the relay need them.

    features --handlers--> wiring --Handlers--> every transaction: publish owes each a message
                                            \\--> HandlerDeliverer: the relay calls them

Invariant: patterns are known from code, by the very process that publishes; there is no row to
sync, so an event that is published while a handler is registered always owes it a message.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.config import LEASE_MARGIN_SECONDS, Settings
from app.errors import ConfigError
from app.handlers.handler import Handler


@dataclass(frozen=True, slots=True)
class Handlers:
    """Handlers by destination."""

    by_destination: Mapping[str, Handler[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, handlers: Iterable[Handler[Any]], settings: Settings) -> "Handlers":
        """These handlers; raises `ConfigError` for two of a name, or a timeout beyond the lease."""
        found: dict[str, Handler[Any]] = {}
        for each in handlers:
            if each.destination in found:
                raise ConfigError(f"there are two handlers named {each.name}")
            _check_timeout(each, settings)
            found[each.destination] = each
        return cls(dict(sorted(found.items())))

    def owed(self) -> dict[str, tuple[str, ...]]:
        """The destinations of each pattern, for publish."""
        owed: dict[str, tuple[str, ...]] = {}
        for destination, each in self.by_destination.items():
            owed[each.pattern] = (*owed.get(each.pattern, ()), destination)
        return owed


def _check_timeout(each: Handler[Any], settings: Settings) -> None:
    longest = settings.lease_seconds - LEASE_MARGIN_SECONDS
    if each.timeout_seconds is not None and not 0 < each.timeout_seconds <= longest:
        raise ConfigError(
            f"handler {each.name}: timeout_seconds is {each.timeout_seconds:g}; above 0 and at "
            f"most {longest:g} is allowed (APP_LEASE_SECONDS={settings.lease_seconds:g})"
        )
