"""The conformance page: what makes `python -m tools.conformance --check` fail."""

import pytest

from tools.conformance import SOURCES, findings
from tools.conformance_row import Row, Source, Verdict, no, partly, yes

POLICY = "outbox/test_policy.py::test_the_span_is_what_really_happens"
LONG = "relay/test_budget.py::test_a_claim_takes_no_longer_with_a_million_sent_rows"
PAGES = "browser/test_parked_page.py::test_everything_is_reached_by_keyboard"
CONTRACT = "outbox/deliverer_contract.py::DelivererContract::test_what_is_taken_is_delivered"


def found(row: Row) -> list[str]:
    """The findings of a page with this row alone."""
    return findings([Source("Peer", "A post.", {"All": (row,)})])


def test_every_row_of_the_page_has_its_tests() -> None:
    """And the page has rows of both sources."""
    assert findings() == []
    assert all(source.sections for source in SOURCES)


@pytest.mark.parametrize(
    "row",
    [
        yes("a", "b", POLICY, CONTRACT),
        partly("a", "b", "tests/scaffolder/test_conformance.py::test_a_sound_row_has_no_findings"),
        no("a", "b"),
    ],
)
def test_a_sound_row_has_no_findings(row: Row) -> None:
    """Tests of the template and of this repository, functions and methods of a class."""
    assert found(row) == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (yes("a", "b"), "names no test"),
        (partly("a", "b"), "names no test"),
        (Row("a", Verdict.NO, "b", (POLICY,)), "is no and names a test"),
        (yes("a", "b", POLICY, POLICY), "twice"),
        (yes("a", "b", LONG, PAGES), "only tests that `make test` leaves out"),
        (yes("a", "b", "outbox/test_nowhere.py::test_x"), "test_nowhere.py, which does not exist"),
        (yes("a", "b", "outbox/test_policy.py::test_x"), "names test_x, which"),
        (yes("a", "b", "outbox/test_policy.py"), "which template/tests/outbox/test_policy.py"),
        (yes("a", "b", CONTRACT.replace("DelivererContract::", "")), "does not have"),
    ],
)
def test_a_row_that_proves_nothing_is_found(row: Row, words: str) -> None:
    """A promise without a test, or with one that was renamed or never written."""
    (finding,) = found(row)
    assert words in finding
    assert finding.startswith("Peer: 'a' ")
