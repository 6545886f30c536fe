"""Run things in turns and compare their medians."""

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """How a figure follows from subject and reference."""

    RATIO = "ratio"
    DIFFERENCE = "difference"


@dataclass(frozen=True, slots=True)
class Figure:
    """Medians of a subject and its reference in `unit`, and the limit for their comparison."""

    name: str
    subject: str
    subject_seconds: float
    reference: str
    reference_seconds: float
    kind: Kind
    limit: float
    rounds: int
    unit: str = "s"

    @property
    def value(self) -> float:
        """Return what the limit is compared with."""
        match self.kind:
            case Kind.RATIO:
                return self.subject_seconds / self.reference_seconds
            case Kind.DIFFERENCE:
                return self.subject_seconds - self.reference_seconds

    @property
    def within(self) -> bool:
        """Tell whether the limit holds."""
        return self.value <= self.limit

    def as_json(self) -> dict[str, object]:
        """Return the figure with its value."""
        return asdict(self) | {"value": self.value, "within": self.within}


@dataclass(frozen=True, slots=True)
class Command:
    """A whole process to time; `prepare` runs before each round and is not timed."""

    title: str
    arguments: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    prepare: Callable[[], None] = lambda: None

    def seconds(self) -> float:
        """Run it once and return the wall time; raise when it fails."""
        self.prepare()
        start = time.perf_counter()
        subprocess.run(
            self.arguments,
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        return time.perf_counter() - start


def compare(
    name: str, subject: Command, reference: Command, *, kind: Kind, limit: float, rounds: int
) -> Figure:
    """Run both in turns after one warm-up each, and compare the medians."""
    subject.seconds()
    reference.seconds()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        times[0].append(subject.seconds())
        times[1].append(reference.seconds())
    return Figure(
        name=name,
        subject=subject.title,
        subject_seconds=statistics.median(times[0]),
        reference=reference.title,
        reference_seconds=statistics.median(times[1]),
        kind=kind,
        limit=limit,
        rounds=rounds,
    )
