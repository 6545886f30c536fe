"""The composition root: every object is made here, once, and handed to those who need it.

    Settings --build--> Components --create_app--> Litestar (routes, guards, lifespan)
                            \\------ the command line uses the same parts

Where to change what: a new kind of destination is one entry in `deliverers`; a feature is found at
run time (see `features.py`). Invariant: the application takes no request before the schema is the
code's and the secret key is proven to be the one that the stored secrets were encrypted with.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import structlog
from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from prometheus_client import CollectorRegistry

from app import features
from app.api import docs, health, openapi, routes
from app.api.auth import Authenticator
from app.api.body import Body, refuse_unread
from app.api.dependencies import provided
from app.api.problems import ERROR_PAGES, EXCEPTION_HANDLERS, ErrorPage
from app.cipher import Cipher, check_sentinel
from app.config import Settings
from app.db.engine import Database
from app.db.migrate import schema_state
from app.errors import ConfigError
from app.handlers.deliverer import HandlerDeliverer
from app.handlers.registry import Handlers
from app.observe.logging import configure_logging
from app.observe.metrics import HttpMetrics
from app.observe.requests import Observed
from app.outbox.catalogue import Catalogue
from app.outbox.deliverer import Deliverer
from app.outbox.publish import CATALOGUE, HANDLERS
from app.program import program
from app.relay.counts import Counts
from app.relay.gauges import watching
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from app.relay.wakeup import Notifier
from app.webhooks.deliverer import WebhookDeliverer
from app.webhooks.key_set import webhook_keys
from app.webhooks.metrics import WebhookMetrics
from app.webhooks.operator_events import EVENT_TYPES
from app.webhooks.routes import Endpoints

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]

logger = structlog.get_logger("app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts of one process."""

    settings: Settings
    database: Database
    cipher: Cipher
    catalogue: Catalogue
    handlers: Handlers
    registry: CollectorRegistry
    http_metrics: HttpMetrics
    deliverers: dict[str, Deliverer] = field(default_factory=dict)

    def relay(self) -> Relay:
        """A relay over these parts. Call it once, inside the event loop."""
        self.deliverers["webhook"] = WebhookDeliverer(
            self.database, self.cipher, self.settings, metrics=WebhookMetrics(self.registry)
        )
        self.deliverers["handler"] = HandlerDeliverer(self.database, self.handlers, self.settings)
        return Relay(self.database, self.deliverers, self.settings, RelayMetrics(self.registry))

    async def close(self) -> None:
        """Give back every connection."""
        for deliverer in self.deliverers.values():
            await deliverer.close()
        await self.database.dispose()


def build(settings: Settings) -> Components:
    """The parts of one process; opens nothing yet."""
    registry = CollectorRegistry()
    database = Database(settings)
    cipher = Cipher.of(settings)
    http_metrics = HttpMetrics(registry)
    catalogue = Catalogue.of(
        (*EVENT_TYPES, *(t for feature in features.load() for t in feature.event_types)),
        required=settings.require_registered_types,
        count_unregistered=http_metrics.unregistered_events.inc,
    )
    handlers = Handlers.of((h for f in features.load() for h in f.handlers), settings)
    database.session_info |= {CATALOGUE: catalogue, HANDLERS: handlers.owed()}
    return Components(
        settings=settings,
        database=database,
        cipher=cipher,
        catalogue=catalogue,
        handlers=handlers,
        registry=registry,
        http_metrics=http_metrics,
    )


async def check_ready_to_start(components: Components) -> None:
    """Raise `ConfigError` with the command that helps, unless schema and secret key are right."""
    schema = await schema_state(components.database)
    if schema.state != "current":
        raise ConfigError(health.describe(schema), hint=f"run: {program()} db upgrade")
    await check_sentinel(components.database, components.cipher)


@asynccontextmanager
async def _relaying(components: Components) -> AsyncGenerator[None]:
    """A relay in this process for as long as the block lasts; what it holds is settled."""
    relay = components.relay()
    task = asyncio.create_task(relay.run())
    task.add_done_callback(_say_why)
    try:
        yield
    finally:
        relay.stop()
        await asyncio.gather(task, return_exceptions=True)


def _say_why(task: "asyncio.Task[Counts]") -> None:
    if error := asyncio.CancelledError() if task.cancelled() else task.exception():
        logger.critical("the relay of this process has ended", exc_info=error)


def create_app(settings: Settings, *, with_relay: bool | None = None) -> Litestar:
    """The HTTP application. `with_relay`: deliver in this process; None: only on SQLite."""
    configure_logging(settings)
    components = build(settings)
    authenticator = Authenticator(components.database)
    notifier = Notifier(components.database)
    relays = settings.is_sqlite if with_relay is None else with_relay

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        try:
            await check_ready_to_start(components)
            await notifier.start()
            gauges = watching(components.database, components.registry)
            async with _relaying(components) if relays else gauges:
                yield
        finally:
            await notifier.stop()
            await authenticator.close()
            await components.close()

    app = _litestar(components, authenticator, lifespan)
    app.asgi_handler = Observed(app.asgi_handler, components.http_metrics)
    return app


def _litestar(components: Components, authenticator: Authenticator, lifespan: Lifespan) -> Litestar:
    settings = components.settings
    return Litestar(
        route_handlers=[
            health.live,
            health.ready,
            health.metrics_route(settings, components.registry),
            *docs.ROUTES,
            *routes.ROUTES,
            Endpoints,
            webhook_keys,
            *(handler for feature in features.load() for handler in feature.route_handlers),
        ],
        guards=[authenticator],
        before_request=refuse_unread,
        dto=Body,
        return_dto=None,
        dependencies=_dependencies(components),
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=[lifespan],
        state=State({ERROR_PAGES: _error_pages(features.load()), "database": components.database}),
        plugins=[openapi.StrictStructs()],
        openapi_config=openapi.config(components.catalogue),
        request_max_body_size=settings.body_limit_bytes,
        logging_config=None,
    )


def _dependencies(components: Components) -> dict[str, Provide]:
    return provided({
        "settings": components.settings,
        "database": components.database,
        "cipher": components.cipher,
        "catalogue": components.catalogue,
    })  # fmt: skip


def _error_pages(loaded: tuple[features.Feature, ...]) -> dict[str, ErrorPage]:
    return {f"/{f.name}": f.error_page for f in loaded if f.error_page is not None}
