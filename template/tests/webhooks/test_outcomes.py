"""The table from HTTP status to outcome, and Retry-After."""

from datetime import UTC, datetime

import pytest

from app.outbox.message import Delivered, ErrorKind, Failed, ParkedReason, Response
from app.outbox.policy import Exponential
from app.webhooks.outcomes import SendFailed, outcome_of, retry_after_seconds

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 226, 299])
def test_every_2xx_is_delivered(status):
    """2xx and nothing else is success."""
    assert isinstance(outcome_of(Response(status)), Delivered)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 511, 599])
def test_what_may_pass_is_tried_again(status):
    """Too early, too many, and everything the receiver blames on itself."""
    outcome = outcome_of(Response(status))
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.park) == (ErrorKind.STATUS, None)
    assert str(status) in outcome.error


@pytest.mark.parametrize(
    "status", [300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 413, 422, 451, 499]
)
def test_a_refusal_is_parked_at_once(status):
    """Trying again would get the same answer; redirects are not followed."""
    outcome = outcome_of(Response(status))
    assert isinstance(outcome, Failed)
    assert outcome.park is ParkedReason.REJECTED


def test_410_is_parked_as_gone():
    """The receiver says that it will never come back."""
    outcome = outcome_of(Response(410))
    assert isinstance(outcome, Failed)
    assert outcome.park is ParkedReason.GONE


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("0", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("9" * 400, 999999999999.0),
        ("Mon, 30 Nov 2026 12:01:30 GMT", 90.0),
        ("Monday, 30-Nov-26 12:01:30 GMT", 90.0),
        ("Mon Nov 30 12:01:30 2026", 90.0),
        ("Mon, 30 Nov 2026 13:01:30 +0100", 90.0),
        ("Mon, 30 Nov 2026 11:59:00 GMT", None),
        ("Mon, 99 Nov 2026 11:59:00 GMT", None),
        ("Mon, 01 Jan 2030 00:00:00 +99999999999999", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2030 99999999999999999999999:00:00 GMT", None),
        ("\u0661\u0662", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_in_the_future(value, seconds):
    """What is past or malformed is ignored."""
    head = f"Date: x\r\nRETRY-AFTER: {value}\r\n".encode()
    assert retry_after_seconds(head, NOW) == seconds


def test_retry_after_counts_only_on_429_and_503():
    """Elsewhere the header means something else."""
    head = b"Retry-After: 7\r\n"
    waits = {s: outcome_of(Response(s, head)).retry_after_seconds for s in (429, 503, 500, 502)}
    assert waits == {429: 7.0, 503: 7.0, 500: None, 502: None}


def test_the_text_of_a_failure_can_be_stored_and_shown():
    """Parts of it may come from the receiver: no NUL, no line breaks, no half surrogates."""
    text = SendFailed(ErrorKind.PROTOCOL, "bad\x00 line:\r\n  \ud800<x>" + "y" * 999).text
    assert text.startswith("bad line: <x>y")
    assert len(text) == 300


def test_the_policy_may_have_rules_for_statuses():
    """An exact status before its class; success is never asked about."""
    policy = Exponential(on_status={"404": "retry", "4xx": "park", "503": "park", "410": "retry"})
    parks = {s: outcome_of(Response(s), policy) for s in (404, 429, 503, 500, 410, 200)}
    assert isinstance(parks.pop(200), Delivered)
    assert {s: o.park for s, o in parks.items()} == {
        404: None,
        429: ParkedReason.REJECTED,
        503: ParkedReason.REJECTED,
        500: None,
        410: None,
    }
