"""The words of the page: every reason is explained, hostile text is made visible."""

from datetime import UTC, datetime, timedelta

import pytest

from app.admin.words import ago, duration_words, explain, readable, status_words, utc, visible
from app.outbox.message import ParkedReason

NOW = datetime(2030, 1, 1, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize("reason", ParkedReason)
def test_every_reason_says_what_happened_and_what_helps(reason: ParkedReason) -> None:
    """Both are sentences of their own."""
    words = explain(reason)
    assert " " in words.title
    assert words.advice.endswith(".")


def test_no_two_reasons_share_a_title() -> None:
    """The title tells reasons apart."""
    assert len({explain(reason).title for reason in ParkedReason}) == len(ParkedReason)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (4, "just now"),
        (5, "5 seconds ago"),
        (60, "1 minute ago"),
        (7199, "1 hour ago"),
        (2 * 86_400, "2 days ago"),
        (-90, "in 1 minute"),
    ],
)
def test_an_age_is_its_largest_whole_unit(seconds: int, words: str) -> None:
    """Rounded down: two minutes are not over before they are."""
    assert ago(NOW - timedelta(seconds=seconds), NOW) == words


def test_times_are_utc_and_say_so() -> None:
    """A reader on another continent reads the same time."""
    assert utc(NOW) == "2030-01-01 03:00:00 UTC"


@pytest.mark.parametrize(
    ("code", "words"), [(404, "404 Not Found"), (599, "599"), (0, "0"), (-1, "-1")]
)
def test_a_status_has_its_name_when_it_has_one(code: int, words: str) -> None:
    """A receiver may answer any number."""
    assert status_words(code) == words


def test_a_duration_has_its_unit() -> None:
    """Milliseconds below a second, seconds above."""
    assert (duration_words(119.6), duration_words(15_000)) == ("120 ms", "15.0 s")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay 1\u202e00", "pay 1\\u202e00"),
        ("a\x00b\x1b[31m", "a\\x00b\\x1b[31m"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\udc80", "\\udc80"),
        ("Zoë\n\t日本", "Zoë\n\t日本"),
    ],
)
def test_nothing_in_hostile_text_is_invisible(text: str, shown: str) -> None:
    """Control, bidirectional and zero-width characters are shown as escapes."""
    assert visible(text) == shown


def test_json_is_indented() -> None:
    """A person reads it; the bytes sent stay as they were."""
    assert readable('{"a":{"b":"é"}}').text == '{\n  "a": {\n    "b": "é"\n  }\n}'


@pytest.mark.parametrize(
    "content",
    ["", "{", "plain", "[" * 50_000, "9" * 5000, '{"a":"\\ud800"}', '"\\u0000"', "NaN", "\udc80"],
)
def test_any_content_is_shown(content: str) -> None:
    """Broken, deep, lone-surrogate or huge-number JSON: shown, never an error."""
    shown = readable(content)
    shown.text.encode("utf-8")
    assert bool(shown.text) == bool(content)


def test_bytes_that_are_no_text_are_told_apart() -> None:
    """A person does not take them for what the receiver wrote."""
    assert "not text" in readable("\ufffd\ufffdPNG").note


def test_a_huge_body_is_cut_and_says_so() -> None:
    """The page stays usable; the note names the whole size."""
    shown = readable("x" * 1_000_000)
    assert len(shown.text) == 64 * 1024
    assert "1,000,000" in shown.note
