"""Start a system's program: one verb to its end, or workers that are released together."""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, BinaryIO

import psutil

from benchmarks.peers.systems import System

LINE = 1 << 20  # the longest line: 600 stamps are some 20 kB
READY_SECONDS = 30
CALL_SECONDS = 120


class Failed(Exception):
    """A system could not be measured."""


async def call(system: System, *verb: str, seconds: float = CALL_SECONDS) -> dict[str, Any]:
    """Run a verb to its end and return its last line."""
    process = await asyncio.create_subprocess_exec(
        *system.command, *verb, cwd=system.folder, env=system.environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=LINE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            output, problems = await process.communicate()
    finally:
        await _killed(process)
    lines = [line for line in output.splitlines() if line.startswith(b"{")]
    if process.returncode or not lines:
        raise Failed(f"{' '.join(verb)}: exit {process.returncode}: {_tail(problems)}")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


async def _killed(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _tail(output: bytes) -> str:
    return output.decode(errors="replace").strip()[-800:]


class Worker:
    """A running worker and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process, errors: BinaryIO) -> None:
        self._process, self._errors = process, errors
        self._ready, self.first, self.count = asyncio.Event(), 0, 0
        self._stamps: dict[int, int] = {}
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if not line.startswith(b"{"):
                continue
            said = json.loads(line)
            match said["event"]:
                case "ready":
                    self._ready.set()
                case "first":
                    self.first = said["at"]
                case "count":
                    self.count = said["count"]
                case "stamps":
                    self._stamps = {int(i): at for i, at in said["at"].items()}

    @property
    def gone(self) -> bool:
        """It has ended by itself."""
        return self._reading.done()

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        self._errors.seek(0)
        return _tail(self._errors.read())

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        with suppress(psutil.NoSuchProcess):
            spent = psutil.Process(self._process.pid).cpu_times()
            return float(spent.user + spent.system)
        return 0.0

    async def ready(self) -> None:
        """Wait until it is connected."""
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait(
            {waiting, self._reading}, timeout=READY_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        waiting.cancel()
        if not self._ready.is_set():
            raise Failed(f"worker is not ready: {self.errors()}")

    def go(self) -> None:
        """Let it claim."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    async def stamps(self) -> dict[int, int]:
        """Let it end, and return when each message arrived."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(10):
            await self._reading
            await self._process.wait()
        return self._stamps

    async def kill(self) -> None:
        """Nothing of it is left."""
        await _killed(self._process)
        await self._reading


@asynccontextmanager
async def _worker(system: System, profile: str, expect: int) -> AsyncGenerator[Worker]:
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *system.command, "worker", profile, str(expect),
            cwd=system.folder, env=system.environment, limit=LINE,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
        worker = Worker(process, errors)
        try:
            await worker.ready()
            yield worker
        finally:
            await worker.kill()


@asynccontextmanager
async def workers(
    system: System, profile: str, processes: int, expect: int = 0
) -> AsyncGenerator[Sequence[Worker]]:
    """Connected workers that wait for `go`; killed at the end. One says when it has `expect`."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(_worker(system, profile, expect))
            for _ in range(processes)
        ]
