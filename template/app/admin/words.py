"""What the page says, as plain values: why a message is parked, how long ago, an inert body. Pure.

Invariant: whatever came from outside (a body, a receiver's answer, an error) leaves here as text in
which nothing is invisible: control and bidirectional characters become their escapes. Templates
then escape the markup. A new parked reason is explained here; a test fails until it is.
"""

import json
import unicodedata
from datetime import datetime
from http import HTTPStatus

from msgspec import Struct

from app.outbox.message import ParkedReason

SHOWN = 64 * 1024  # characters
_INVISIBLE = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))


class Explanation(Struct, frozen=True):
    """What happened, and what helps before a retry."""

    title: str
    advice: str


_EXPLANATIONS = {
    ParkedReason.EXHAUSTED: Explanation(
        "Every attempt failed",
        "The receiver was down or answered errors. Retry once it works again.",
    ),
    ParkedReason.EXPIRED: Explanation(
        "It became too old to go on trying",
        "The endpoint's retry policy limits the age. Retry if it is still wanted.",
    ),
    ParkedReason.REJECTED: Explanation(
        "The receiver refused it",
        "Its answer says that trying again changes nothing. Mend the receiver or the endpoint's "
        "URL first, then retry.",
    ),
    ParkedReason.GONE: Explanation(
        "The receiver says it is gone",
        "It answered 410, so its endpoint was disabled. Enable it again, then retry.",
    ),
    ParkedReason.FORBIDDEN_TARGET: Explanation(
        "The receiver's address is not allowed",
        "Its name leads to a private or reserved address. Correct it, then retry.",
    ),
    ParkedReason.ENDPOINT_DISABLED: Explanation(
        "Its endpoint was disabled",
        "Nothing more was sent. Enable the endpoint, then retry.",
    ),
    ParkedReason.ENDPOINT_DELETED: Explanation(
        "Its endpoint was deleted",
        "There is nowhere left to send it: dismiss it.",
    ),
    ParkedReason.CRASHED: Explanation(
        "Relays stopped while they sent it",
        "Three relays ended without an answer. Read their logs before you retry.",
    ),
    ParkedReason.UNDELIVERABLE: Explanation(
        "The application could not send it",
        "The error below is the application's own. Correct the cause, then retry.",
    ),
}


def explain(reason: ParkedReason) -> Explanation:
    """A parked reason in the words of somebody who has never seen this page."""
    return _EXPLANATIONS[reason]


def ago(moment: datetime, now: datetime) -> str:
    """`3 minutes ago`, `in 2 hours`, `just now`; the largest whole unit, rounded down."""
    seconds = int(abs((now - moment).total_seconds()))
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count = seconds // size
        if count >= (1 if size > 1 else 5):
            words = f"{count} {unit}{'' if count == 1 else 's'}"
            return f"{words} ago" if moment <= now else f"in {words}"
    return "just now"


def utc(moment: datetime) -> str:
    """`2026-01-31 12:00:00 UTC`."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def status_words(code: int) -> str:
    """`404 Not Found`; the number alone when it has no name."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def duration_words(milliseconds: float) -> str:
    """`120 ms`, `15.0 s`."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def visible(text: str) -> str:
    """The text with every invisible character (but newline and tab) as its escape: `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _INVISIBLE:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


class Shown(Struct, frozen=True):
    """Content made readable. `note` says what was done to it, or nothing."""

    text: str
    note: str = ""


def readable(content: str) -> Shown:
    """JSON indented, anything else as it is; at most 64 Ki characters of it."""
    if len(content) > SHOWN:
        note = f"The first {SHOWN:,} of {len(content):,} characters."
        return Shown(visible(content[:SHOWN]), note)
    note = "Some of it is not text and shown as \N{REPLACEMENT CHARACTER}." * ("\ufffd" in content)
    try:
        return Shown(visible(json.dumps(json.loads(content), indent=2, ensure_ascii=False)), note)
    except (ValueError, RecursionError):
        return Shown(visible(content.replace("\r\n", "\n")), note)
