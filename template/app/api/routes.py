"""Every route of this package that needs a key; a new one is entered here."""

from litestar.types import ControllerRouterHandler

from app.api.catalogue import list_event_types
from app.api.events import publish_events
from app.api.messages import Messages
from app.api.replays import Replays

ROUTES: tuple[ControllerRouterHandler, ...] = (
    publish_events, list_event_types, Messages, Replays,
)  # fmt: skip
