"""What the tables of `python -m benchmarks.peers` say about figures, and what they leave out."""

from benchmarks.peers.measure import Drained, Enqueued, Waited
from benchmarks.peers.report import figures, table
from benchmarks.peers.run import Found
from benchmarks.peers.verdicts import Figures, Outcome, Verdict, verdicts


def row(measured: Figures, column: str, against: str) -> Verdict:
    """The one verdict with this column and this reference."""
    (found,) = [
        verdict
        for verdict in verdicts(measured)
        if (verdict.rule.column, verdict.rule.against) == (column, against)
    ]
    return found


def drains(*rates: float) -> list[Drained | Waited | Enqueued]:
    """Drains of one second at these rates."""
    return [Drained(int(rate), 1.0, cut=False, worker_cpu_us=10) for rate in rates]


def test_a_rate_is_compared_with_the_fastest_of_the_peers() -> None:
    """HTTP: the best peer counts, at least its rate is a must and 1.5 times it the goal."""
    peers = {"graphile-worker": {"http 1": 50.0}, "txoutbox": {"http 1": 100.0}}
    for ours, outcome in ((99.0, "MISSED"), (100.0, "ok"), (150.0, "goal")):
        verdict = row({"relay": {"http 1": ours}, **peers}, "http 1", "best peer")
        assert (verdict.rival, verdict.outcome) == ("txoutbox", outcome)
    assert row({"relay": {"http 1": 50.0}, **peers}, "http 1", "graphile-worker").outcome == "ok"


def test_a_latency_is_compared_with_the_least_of_the_peers_without_txoutbox() -> None:
    """Less is better there: 1.0 times the least p99 is the most that may be."""
    peers = {key: {"p99 ms": ms} for key, ms in
             (("txoutbox", 1.0), ("pg-boss", 4.0), ("pgqueuer", 9.0))}  # fmt: skip
    for ours, outcome in ((4.0, Outcome.OK), (4.1, Outcome.MISSED)):
        verdict = row({"relay": {"p99 ms": ours}, **peers}, "p99 ms", "best peer but txoutbox")
        assert (verdict.rival, verdict.outcome) == ("pg-boss", outcome)


def test_a_goal_without_a_must_is_never_missed() -> None:
    """0.8 of the limit that writes attempt rows is a goal only."""
    measured = {"relay": {"drain 1": 10.0}, "sql-limit:attempts": {"drain 1": 100.0}}
    assert row(measured, "drain 1", "sql-limit:attempts").outcome is Outcome.SHORT


def test_what_was_not_measured_has_no_verdict() -> None:
    """Without peers only the row about our own transactions is left, without ours none."""
    alone = verdicts({"relay": {"enqueue": 0.7, "drain 1": 10.0}})
    assert [(v.rule.column, v.outcome) for v in alone] == [("enqueue", Outcome.OK)]
    assert verdicts({"txoutbox": {"drain 1": 10.0}}) == []


def test_the_table_has_the_median_of_the_rounds_and_ours_to_it() -> None:
    """Rates and shares are medians; a latency is a quantile over the messages of all rounds."""
    found = Found(
        versions={"relay": "this checkout", "txoutbox": "0.2.2"},
        rounds={
            "relay": {"drain 1": drains(500, 90_000, 1000)},
            "txoutbox": {
                "drain 1": drains(2000),
                "latency": [Waited((1.0, 9.0)), Waited((2.0,))],
                "enqueue": [Enqueued(without=100, with_message=25)],
            },
        },
    )
    measured = figures(found)
    assert measured["relay"] == {"drain 1": 1000}
    assert measured["txoutbox"] == {"drain 1": 2000, "p50 ms": 2, "p99 ms": 9, "enqueue": 0.25}
    line = table(measured, found.versions).splitlines()[2]
    assert line.split() == ["txoutbox", "0.2.2", "2,000", "(0.50)", *"---", "2.00", "9.00", "0.25"]
