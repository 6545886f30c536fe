"""`--header` and `--auth`: an endpoint's own headers and credentials as text.

Whatever is an argument is in the shell's history and in the list of processes: `-` reads the
credentials from standard input instead.
"""

import sys
from pathlib import Path

from msgspec import UNSET, UnsetType

from app.errors import UsageError
from app.webhooks.credentials import Auth, Basic, Bearer

NONE = "none"


def headers_from(texts: list[str] | None) -> dict[str, str]:
    """`NAME: VALUE` each; `none` alone for no headers."""
    if texts == [NONE] or not texts:
        return {}
    found: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or name.strip() in found:
            problem = "is there twice" if colon else "has no colon"
            raise UsageError(
                f"--header: {name.strip()[:80]!r} {problem}", hint="write --header 'X-Key: value'"
            )
        found[name.strip()] = value.strip()
    return found


def changed_headers(texts: list[str] | None) -> dict[str, str] | UnsetType:
    """Left out: unchanged; else these and no others."""
    return UNSET if texts is None else headers_from(texts)


def auth_from(text: str | None) -> Auth | None:
    """`basic USER:PASSWORD`, `bearer TOKEN` or `none`; `-` for one of these on standard input."""
    if text == "-":
        text = sys.stdin.readline().rstrip("\r\n")
    if text is None or text == NONE:
        return None
    kind, _, rest = text.partition(" ")
    match kind.lower(), rest.partition(":"):
        case "bearer", _ if rest:
            return Bearer(rest)
        case "basic", (username, ":", password):
            return Basic(username, password)
    raise UsageError(
        "--auth: neither 'basic USER:PASSWORD' nor 'bearer TOKEN'",
        hint="write - to have it read from standard input",
    )


def certificate_from(path: Path | None) -> str | None:
    """The text of the file; a file called `none` for no certificate."""
    if path is None or str(path) == NONE:
        return None
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--client-certificate {path}: {error}", hint="name a PEM file, or none"
        ) from None


def changed_certificate(path: Path | None) -> str | UnsetType | None:
    """Left out: unchanged."""
    return UNSET if path is None else certificate_from(path)


def changed_auth(text: str | None) -> Auth | UnsetType | None:
    """Left out: unchanged."""
    return UNSET if text is None else auth_from(text)
