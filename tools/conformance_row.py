"""One line of the conformance page. A new line goes into the module of its source."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Whether a generated project has it."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Row:
    """What the source has, what we do, and the tests: files below template/tests, or tests/."""

    feature: str
    verdict: Verdict
    ours: str
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A design that was published, with its rows by section."""

    name: str
    about: str
    sections: dict[str, tuple[Row, ...]]


def yes(feature: str, ours: str, *tests: str) -> Row:
    """We have it, and these tests prove it."""
    return Row(feature, Verdict.YES, ours, tests)


def partly(feature: str, ours: str, *tests: str) -> Row:
    """We have some of it: these tests prove that, `ours` says what is missing."""
    return Row(feature, Verdict.PARTLY, ours, tests)


def no(feature: str, reason: str) -> Row:
    """We do not have it."""
    return Row(feature, Verdict.NO, reason)
