"""Logs: one JSON object per line in production, coloured text in development; always on stderr.

Invariant: no secret in a log. No URL query, no header value, no body is ever passed to a logger;
what libraries log through the standard library goes the same way, and their chatter below WARNING
is left out. Where to change what: a new field of the request line is in `observe/requests.py`.
"""

import logging
import sys

import structlog
from structlog.types import Processor

from app.config import Settings

QUIET = (
    "aiosqlite", "alembic", "asyncio", "httpcore", "httpx", "sqlalchemy", "uvicorn",
    "uvicorn.access", "uvicorn.error",
)  # fmt: skip


def configure_logging(settings: Settings) -> None:
    """Set up structlog and the standard library's logging for this process."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_handler(shared, production=settings.is_production)]
    root.setLevel(settings.log_level.upper())
    for name in QUIET:
        library = logging.getLogger(name)
        library.handlers = []
        library.propagate = True
        library.setLevel(logging.WARNING)


def _handler(shared: list[Processor], *, production: bool) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(production=production),
            ],
        )
    )
    return handler


def _rendering(*, production: bool) -> list[Processor]:
    if production:
        # Tracebacks without local variables: those may hold a secret.
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
