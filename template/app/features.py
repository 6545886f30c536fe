"""Optional features: packages of `app` that the rest does not import but finds at run time.

A feature package has a module `feature.py` that exposes `FEATURE`. Deleting the package takes its
routes, event types, handlers and tables out of the application; nothing else has to change. To add
one of your own, write the package and add its name to `FEATURES`.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from litestar.types import ControllerRouterHandler

from app.api.problems import ErrorPage
from app.handlers.handler import Handler
from app.outbox.catalogue import EventType

FEATURES = ("orders", "admin", "inbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What a feature adds to the application."""

    name: str
    route_handlers: tuple[ControllerRouterHandler, ...] = ()
    event_types: tuple[EventType[Any], ...] = ()
    handlers: tuple[Handler[Any], ...] = ()
    error_page: ErrorPage | None = None  # errors below `/<name>` are shown by this


def present() -> tuple[str, ...]:
    """Names of the features that this project has."""
    # The package first: looking for a module of a package that is not there raises.
    packages = [name for name in FEATURES if find_spec(f"app.{name}")]
    return tuple(name for name in packages if find_spec(f"app.{name}.feature"))


def load() -> tuple[Feature, ...]:
    """The features of this project, imported."""
    return tuple(import_module(f"app.{name}.feature").FEATURE for name in present())
