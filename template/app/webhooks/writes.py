"""Small transactions of the relay about endpoints, each in a task of its own.

Invariant: a database that does not answer holds no sender longer than `WRITE_SECONDS`, and an error
is logged and is no error of the attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import Database
from app.errors import AppError

WRITE_SECONDS = 5.0

T = TypeVar("T")

logger = structlog.get_logger("app.webhooks")


class Writes:
    """Called with what to do in a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writing: set[asyncio.Task[None]] = set()

    async def __call__(self, work: Callable[[AsyncSession], Awaitable[T]]) -> T | None:
        """Its answer after COMMIT; None if it failed or takes too long."""
        answers: list[T] = []
        writing = asyncio.create_task(self._transaction(work, answers))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        # Not a timeout around the work: giving up a dead connection may take as long as it.
        await asyncio.wait({writing}, timeout=WRITE_SECONDS)
        return answers[0] if answers else None

    async def _transaction(
        self, work: Callable[[AsyncSession], Awaitable[T]], answers: list[T]
    ) -> None:
        try:
            async with self._database.transaction() as session:
                answer = await work(session)
            answers.append(answer)
        except (SQLAlchemyError, OSError, AppError) as error:
            logger.warning("state of an endpoint not written", error=repr(error)[:200])

    async def close(self) -> None:
        """Let what is being written end."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=WRITE_SECONDS)
