"""A relay in a process of its own that starts fast, with a deliverer without network."""

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from random import Random

from prometheus_client import CollectorRegistry

from app.db.engine import Database
from app.outbox.message import Claim, Delivered, Outcome
from app.outbox.policy import DEFAULT_POLICY, RetryPolicy
from app.relay import suspects
from app.relay.metrics import RelayMetrics
from app.relay.relay import Relay
from tests.conftest import settings_for

POISON = b'"poison":true'
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


class Deadly:
    """Takes 50 to 300 ms; a poisonous message ends the process."""

    def __init__(self) -> None:
        self._random = Random()

    async def deliver(self, claim: Claim) -> Outcome:
        """Delivered, or the end."""
        await asyncio.sleep(0.05 + 0.25 * self._random.random())
        if POISON in claim.body:
            os._exit(1)
        return Delivered()

    def policy(self, destination: str) -> RetryPolicy:
        """The default one."""
        return DEFAULT_POLICY

    async def close(self) -> None:
        """Nothing to give back."""


def _main(url: str) -> None:
    suspects.WARM_UP_SECONDS = 0.1

    async def run() -> None:
        settings = settings_for(url, APP_POLL_SECONDS="0.05")
        database = Database(settings)
        metrics = RelayMetrics(CollectorRegistry())
        await Relay(database, {"test": Deadly()}, settings, metrics).run()

    asyncio.run(run())


@contextmanager
def relay_process(url: str) -> Iterator[BaseProcess]:
    """Running; killed at the end if it still is."""
    process = _context.Process(target=_main, args=(url,), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
