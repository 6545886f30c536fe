"""Medians of a run, its two tables and its JSON."""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.peers.measure import Drained, Enqueued, Measured, Waited
from benchmarks.peers.run import Found
from benchmarks.peers.systems import KEYS, OURS
from benchmarks.peers.verdicts import Figures, Verdict

COLUMNS = ("drain 1", "drain 2", "http 1", "http 2", "p50 ms", "p99 ms", "enqueue")
CAPTION = """drain, http: messages a second with one and two processes; p50, p99: COMMIT to handler at
50/s; enqueue: transactions with a message to those without, 8 connections.
In brackets: ours to theirs (p50, p99: less is better)."""


def figures(found: Found) -> Figures:
    """Column by column, the median of the rounds; latencies are of all messages of all rounds."""
    return {
        key: {name: value for label, rounds in labels.items()
              for name, value in _figure(label, rounds).items()}
        for key, labels in found.rounds.items()
    }  # fmt: skip


def _figure(label: str, rounds: Sequence[Measured]) -> dict[str, float]:
    rates = [one.rate for one in rounds if isinstance(one, Drained)]
    if rates:
        return {label: statistics.median(rates)}
    waits = sorted(ms for one in rounds if isinstance(one, Waited) for ms in one.milliseconds)
    if waits:
        return {"p50 ms": _quantile(waits, 0.5), "p99 ms": _quantile(waits, 0.99)}
    shares = [one.with_message / one.without for one in rounds if isinstance(one, Enqueued)]
    return {label: statistics.median(shares)}


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _number(column: str, value: float) -> str:
    return f"{value:,.0f}" if column.startswith(("drain", "http")) else f"{value:.2f}"


def table(measured: Figures, versions: Mapping[str, str]) -> str:
    """System by part: the figure, and ours to it."""
    ours = measured.get(OURS, {})
    rows: list[Sequence[str]] = [("system", "version", *COLUMNS)]
    for key in (key for key in KEYS if key in measured):
        row = [key, versions[key]]
        for column in COLUMNS:
            value = measured[key].get(column)
            text = "-" if value is None else _number(column, value)
            if value is not None and column in ours and key != OURS:
                text += f" ({ours[column] / value:.2f})"
            row.append(text)
        rows.append(row)
    return f"{_aligned(rows)}\n\n{CAPTION}"


def verdict_table(found: Sequence[Verdict]) -> str:
    """One row a rule."""
    rows: list[Sequence[str]] = [("benchmark", "ours", "against", "", "ratio", "must", "goal", "")]
    for verdict in found:
        rule = verdict.rule
        bounds = [f"{rule.better} {b:g}" if b is not None else "-" for b in (rule.must, rule.goal)]
        name = (
            rule.against if verdict.rival in rule.against else f"{rule.against} ({verdict.rival})"
        )
        ours, theirs = (_number(rule.column, v) for v in (verdict.ours, verdict.theirs))
        ratio = f"{verdict.ratio:.2f}"
        rows.append((rule.column, ours, name, theirs, ratio, *bounds, verdict.outcome))
    return _aligned(rows)


def as_json(
    found: Found, measured: Figures, judged: Sequence[Verdict], seconds: float
) -> dict[str, object]:
    """Everything, the single rounds too."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "server": found.server,
        "seconds": seconds,
        "systems": {
            key: {
                "version": found.versions[key],
                "figures": measured[key],
                "rounds": {label: list(map(_round, rounds)) for label, rounds in labels.items()},
            }
            for key, labels in found.rounds.items()
        },
        "verdicts": [asdict(v) | {"ratio": v.ratio, "outcome": v.outcome} for v in judged],
        "errors": found.errors,
    }


def _round(measured: Measured) -> dict[str, object]:
    match measured:
        case Drained():
            return asdict(measured) | {"rate": measured.rate}
        case Waited(milliseconds=waits):
            ordered = sorted(waits)
            p50, p99 = (_quantile(ordered, share) for share in (0.5, 0.99))
            return {"messages": len(ordered), "p50": p50, "p99": p99, "most": ordered[-1]}
        case Enqueued():
            return asdict(measured)
