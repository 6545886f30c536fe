"""The whole run: every part in rounds, and within a round one system after the other."""

# mypy: disable-error-code="import-untyped"
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import asyncpg

from benchmarks.peers.measure import (
    Drained,
    Enqueued,
    Info,
    Measured,
    Waited,
    drain,
    enqueue,
    latency,
    prepare,
)
from benchmarks.peers.programs import Failed
from benchmarks.peers.servers import Receiver
from benchmarks.peers.systems import Part, System

MESSAGES = 600  # of a latency run, over all rounds


@dataclass
class Found:
    """Every measurement by system and label (`drain 2`), and why something failed."""

    server: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, dict[str, list[Measured]]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One cell of the table, measured once a round."""

    label: str
    part: Part
    measure: Callable[[System, Info], Coroutine[Any, Any, Measured]]


def steps(parts: Collection[Part], rounds: int, receiver: Receiver) -> list[Step]:
    """What is measured, in this order."""
    found = []
    for part in [part for part in Part if part in parts]:
        match part:
            case Part.DRAIN | Part.HTTP:
                for processes in (1, 2):
                    measure = partial(drain, part=part, processes=processes, receiver=receiver)
                    found.append(Step(f"{part} {processes}", part, measure))
            case Part.LATENCY:
                messages = -(-MESSAGES // rounds)
                found.append(Step(str(part), part, partial(latency, count=messages)))
            case Part.ENQUEUE:
                found.append(Step(str(part), part, enqueue))
    return found


async def measure_all(
    server: str, systems: Sequence[System], planned: Sequence[Step], rounds: int
) -> Found:
    """Measure; a system that fails is named in the errors, the others go on."""
    found, infos = Found(), {}
    admin = await asyncpg.connect(server, command_timeout=60)
    found.server = await admin.fetchval("SELECT version()")
    for system in systems:
        with _failures(found, f"{system.key} setup"):
            infos[system.key] = await prepare(system, admin)
            found.versions[system.key] = infos[system.key].version
    for step in planned:
        taking_part = [s for s in systems if step.part in s.parts and s.key in infos]
        for system in taking_part * rounds:
            with _failures(found, f"{system.key} {step.label}"):
                measured = await step.measure(system, infos[system.key])
                of_system = found.rounds.setdefault(system.key, {})
                of_system.setdefault(step.label, []).append(measured)
                say(f"{step.label:9} {system.key:20} {described(measured)}")
    await admin.close()
    return found


@contextmanager
def _failures(found: Found, what: str) -> Iterator[None]:
    try:
        yield
    except (Failed, OSError, ValueError, asyncpg.PostgresError) as problem:
        found.errors[what] = f"{type(problem).__name__} {problem}"
        say(f"!! {what}: {found.errors[what]}")


_began = time.monotonic()


def say(line: str) -> None:
    """Progress, on stderr."""
    sys.stderr.write(f"[{time.monotonic() - _began:5.0f} s] {line}\n")
    sys.stderr.flush()


def described(measured: Measured) -> str:
    """One measurement in words."""
    match measured:
        case Drained(cut=cut):
            ended = " (cut)" if cut else ""
            return f"{measured.rate:9,.0f}/s, {measured.worker_cpu_us:.0f} us CPU{ended}"
        case Waited(milliseconds=waits):
            return f"p50 {sorted(waits)[len(waits) // 2]:.2f} ms, most {max(waits):.2f} ms"
        case Enqueued():
            return f"{measured.with_message:9,.0f}/s of {measured.without:,.0f}/s"
