"""`init`: a `.env` with fresh secrets, for a clone that has none (it is never committed).

Invariant: it never overwrites a `.env`: whoever loses APP_SECRET_KEY loses the endpoints' secrets.
"""

import os
import re
import secrets
from pathlib import Path

from app.config import PLACEHOLDER_SECRET
from app.errors import ConfigError
from app.program import called, program

EXAMPLE = Path(".env.example")
TARGET = Path(".env")
SECRET_LINE = re.compile(rf"^APP_SECRET_KEY={PLACEHOLDER_SECRET}[ \t]*$", re.MULTILINE)


def init() -> None:
    """Write a .env with a fresh secret.

    It is .env.example with the placeholder replaced; a .env that exists is never overwritten.
    """
    from app.cli.output import note

    if TARGET.exists() or TARGET.is_symlink():
        raise ConfigError(".env exists, it was left as it is", hint=f"run: {program()} check")
    try:
        text = EXAMPLE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no .env.example in {Path.cwd()}", hint="run it in the project's folder"
        ) from None
    secret = f"APP_SECRET_KEY={secrets.token_urlsafe(32)}"
    text, found = SECRET_LINE.subn(secret, text)
    write_private(TARGET, text if found else f"{text.rstrip()}\n{secret}\n")
    note("wrote .env with a fresh APP_SECRET_KEY (mode 0600)")
    note(f"next: {called()} dev")


def write_private(path: Path, text: str) -> None:
    """A new file that only its owner may read, from the first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
