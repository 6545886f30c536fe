"""What our relay has to reach, and whether it did.

A rule compares our figure with another one of the same run. Rows that are about no peer (history,
memory, SQLite, HTTP against the bare loop) are `python -m benchmarks`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.peers.systems import GRAPHILE, LIMIT, LIMIT_WITH_ATTEMPTS, OURS, PEERS, TXOUTBOX

Figures = Mapping[str, Mapping[str, float]]  # by system, then by column of the table


class Better(StrEnum):
    """Which side of a bound is good."""

    MORE = ">="
    LESS = "<="


class Outcome(StrEnum):
    """How a row ends."""

    GOAL = "goal"
    OK = "ok"
    SHORT = "short of the goal"  # nothing must be reached here
    MISSED = "MISSED"


@dataclass(frozen=True, slots=True)
class Rule:
    """Our figure in `column` against the best of `rivals`: their ratio and its bounds."""

    column: str
    against: str
    rivals: tuple[str, ...]
    better: Better
    must: float | None
    goal: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A rule with its figures."""

    rule: Rule
    ours: float
    rival: str
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours to theirs."""
        return self.ours / self.theirs

    @property
    def outcome(self) -> Outcome:
        """The best that was reached."""
        if self._reached(self.rule.goal):
            return Outcome.GOAL
        if self.rule.must is None:
            return Outcome.SHORT
        return Outcome.OK if self._reached(self.rule.must) else Outcome.MISSED

    def _reached(self, bound: float | None) -> bool:
        if bound is None:
            return False
        match self.rule.better:
            case Better.MORE:
                return self.ratio >= bound
            case Better.LESS:
                return self.ratio <= bound


WITHOUT_PUBLISH = "without publish"  # the column itself is a ratio to it
SLOWER_PEERS = tuple(peer for peer in PEERS if peer != TXOUTBOX)
RULES = (
    Rule("drain 1", LIMIT, (LIMIT,), Better.MORE, 0.5, None),
    Rule("drain 1", GRAPHILE, (GRAPHILE,), Better.MORE, 1.0, None),
    Rule("drain 1", LIMIT_WITH_ATTEMPTS, (LIMIT_WITH_ATTEMPTS,), Better.MORE, None, 0.8),
    Rule("http 1", GRAPHILE, (GRAPHILE,), Better.MORE, 1.0, None),
    Rule("http 1", "best peer", PEERS, Better.MORE, 1.0, 1.5),
    Rule("http 2", "best peer", PEERS, Better.MORE, 1.0, 1.5),
    Rule("p50 ms", f"{LIMIT}, NOTIFY after commit", (LIMIT,), Better.LESS, 1.5, None),
    Rule("p99 ms", f"{LIMIT}, NOTIFY after commit", (LIMIT,), Better.LESS, 1.5, None),
    Rule("p99 ms", f"best peer but {TXOUTBOX}", SLOWER_PEERS, Better.LESS, 1.0, None),
    Rule("p99 ms", "best peer", PEERS, Better.LESS, None, 1.0),
    Rule("enqueue", WITHOUT_PUBLISH, (), Better.MORE, 0.65, 0.75),
)


def verdicts(figures: Figures) -> list[Verdict]:
    """Every rule whose figures were measured."""
    return [verdict for rule in RULES if (verdict := _judged(rule, figures)) is not None]


def _judged(rule: Rule, figures: Figures) -> Verdict | None:
    measured = {key: columns[rule.column] for key, columns in figures.items()
                if rule.column in columns}  # fmt: skip
    rivals = {key: measured[key] for key in rule.rivals if key in measured}
    if rule.against == WITHOUT_PUBLISH:
        rivals = {WITHOUT_PUBLISH: 1.0}
    if OURS not in measured or not rivals:
        return None
    best = max if rule.better is Better.MORE else min
    rival = best(rivals, key=lambda key: rivals[key])
    return Verdict(rule, measured[OURS], rival, rivals[rival])
