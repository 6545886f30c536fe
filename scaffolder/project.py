"""The files of a project that the tool writes itself: the answers file and `.env`."""

import os
import secrets
from pathlib import Path

from scaffolder.questions import load_yaml
from scaffolder.source import CANONICAL_URL

ANSWERS_FILE = ".copier-answers.yml"
_PLACEHOLDER = "APP_SECRET_KEY=change-me"


def record_origin(project: Path, version: str, source: str = CANONICAL_URL) -> None:
    """Name the template's home and version in the answers file.

    Copier saw an unpacked folder, which means nothing on another machine or tomorrow.
    """
    import yaml

    path = project / ANSWERS_FILE
    text = path.read_text(encoding="utf-8")
    comments = [line for line in text.splitlines(keepends=True) if line.startswith("#")]
    answers = load_yaml(text)
    assert isinstance(answers, dict)
    answers |= {"_commit": version, "_src_path": source}
    body = yaml.safe_dump(answers, indent=4, allow_unicode=True, default_flow_style=False)
    path.write_text("".join(comments) + body, encoding="utf-8", newline="\n")


def write_env(project: Path) -> None:
    """Write `.env` from `.env.example` with a fresh secret, readable for its owner only."""
    example = (project / ".env.example").read_text(encoding="utf-8")
    text = example.replace(_PLACEHOLDER, f"APP_SECRET_KEY={secrets.token_urlsafe(32)}")
    descriptor = os.open(project / ".env", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def list_files(project: Path) -> tuple[str, ...]:
    """Return every file of a project, with slashes, sorted."""
    return tuple(
        sorted(
            path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()
        )
    )
