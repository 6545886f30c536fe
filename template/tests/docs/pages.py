"""The project's texts as a reader gets them, also where they are still templates.

Where the project was generated from, some texts end in `.jinja` and hold the project's name as a
placeholder. In a generated project there is none of that, and this module only reads files.
"""

from pathlib import Path

import pytest
from jinja2 import Environment, StrictUndefined

from app.program import program

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ".jinja"
IN_PLACE = (ROOT / f"pyproject.toml{TEMPLATE}").exists()
NAME = "my-app" if IN_PLACE else program()

_ANSWERS: dict[str, object] = {
    "project_name": NAME,
    "database": "sqlite",
    "orders": True,
    "admin": True,
    "inbox": True,
    "docker": True,
    "ci": True,
}
_JINJA = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)


def path_of(name: str) -> Path:
    """Where the text called `name` lies: the file itself, or its template."""
    plain = ROOT / name
    return plain if plain.exists() else ROOT / f"{name}{TEMPLATE}"


def needed(name: str) -> Path:
    """The file called `name`; skips the test when its owner has removed or renamed it."""
    path = path_of(name)
    if not (IN_PLACE or path.exists()):
        pytest.skip(f"there is no {name} in this project")
    return path


def read(name: str) -> str:
    """The text called `name`, as it is in a generated project; skips as `needed` does."""
    path = needed(name)
    text = path.read_text(encoding="utf-8")
    return _JINJA.from_string(text).render(_ANSWERS) if path.suffix == TEMPLATE else text


def exists(name: str) -> bool:
    """Is there such a file or folder, as itself or as a template?"""
    return path_of(name).exists()


def pages() -> list[str]:
    """README.md and every page below docs/, relative to the project."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.jinja")]
    return sorted(str(path.relative_to(ROOT)).removesuffix(TEMPLATE) for path in found)
