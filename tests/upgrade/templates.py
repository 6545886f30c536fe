"""A small pair of templates: every kind of change that a release can make, in few files."""

from scaffolder.packing import TemplateFile

Files = dict[str, bytes]

COPIER_YML = b"""
_min_copier_version: "9.16.0"
_subdirectory: template
_templates_suffix: .jinja
_answers_file: .copier-answers.yml
_envops:
  keep_trailing_newline: true
project_name:
  type: str
  help: Name of the project
  default: my-app
database:
  type: str
  help: Database
  choices: [sqlite, postgresql]
  default: sqlite
extra:
  type: bool
  help: A feature of its own
  default: false
_exclude:
  - "__pycache__"
  - "{% if not extra %}/app/extra{% endif %}"
  - "{% if not extra %}/app/migrations/versions/0002_extra.py{% endif %}"
"""

ANSWERS = b"# Answers of this project.\n{{ _copier_answers | to_nice_yaml -}}\n"
LOGO = bytes(range(256))


def lines(*changed: tuple[int, str], name: str = "line", count: int = 20) -> bytes:
    """Return numbered lines, with some of them replaced."""
    texts = {number: f"{name} {number} of the template" for number in range(1, count + 1)}
    return "".join(f"{text}\n" for text in (texts | dict(changed)).values()).encode()


def migration(revision: str, down: str | None) -> bytes:
    """Return a revision file."""
    parent = "None" if down is None else f'"{down}"'
    return (
        f'"""Revision {revision}."""\n\nrevision = "{revision}"\ndown_revision = {parent}\n\n\n'
        "def upgrade() -> None:\n    pass\n"
    ).encode()


VERSIONS = "app/migrations/versions"
FIRST: Files = {
    "copier.yml": COPIER_YML,
    "template/{{_copier_conf.answers_file}}.jinja": ANSWERS,
    "template/.env.example": b"APP_SECRET_KEY=change-me\nAPP_PORT=1\n",
    "template/.gitignore": b"/.env\n/data/\n",
    "template/README.md.jinja": b"# {{ project_name }}\n\nOn {{ database }}.\n",
    "template/app/__init__.py": b"",
    "template/app/config.py": lines(name="setting"),
    "template/app/lines.py": lines(),
    "template/app/other.py": lines(name="other"),
    "template/app/still.py": lines(name="still"),
    "template/app/old_name.py": lines(name="moved"),
    "template/app/leaving.py": lines(name="leaving"),
    "template/app/pages/__init__.py": b"",
    "template/app/pages/index.py": lines(name="index"),
    "template/app/pages/detail.py": lines(name="detail"),
    "template/app/extra/__init__.py": b"EXTRA = True\n",
    "template/app/extra/more.py": lines(name="more"),
    "template/logo.png": LOGO,
    "template/icon.png": LOGO[::-1],
    "template/run.sh": b"#!/bin/sh\necho one\necho two\necho three\n",
    "template/wo rds \xc3\xbc.txt".encode("latin-1").decode(): lines(name="words"),
    f"template/{VERSIONS}/__init__.py": b"",
    f"template/{VERSIONS}/0001_first.py": migration("0001", None),
    f"template/{VERSIONS}/0002_extra.py": migration("0002", "0001"),
}
EXECUTABLE = {"template/run.sh"}

CHANGELOG = b"""# Changelog

## Unreleased

### Added
- Something to come

## 2.0.0

### Added
- Things

### What an upgrade changes in your project
- `app/lines.py` says more
- one migration

## 1.0.0

- First
"""
SECOND: Files = {
    **FIRST,
    "CHANGELOG.md": CHANGELOG,
    "copier.yml": COPIER_YML
    + b"""
style:
  type: str
  help: How it looks
  choices: [plain, fancy]
  default: plain
""",
    "template/.env.example": b"APP_SECRET_KEY=change-me\nAPP_PORT=2\n",
    "template/app/config.py": lines((3, "setting 3 is new"), (17, "setting 17 is new"),
                                    name="setting"),
    "template/app/lines.py": lines((10, "line 10 of the second template")),
    "template/app/other.py": lines((10, "other 10 of the second template"), name="other"),
    "template/app/new_name.py": lines((20, "moved 20 is new"), name="moved"),
    "template/app/pages/index.py": lines((1, "index 1 is new"), name="index"),
    "template/app/pages/list.py": lines(name="list"),
    "template/app/added.py": lines(name="added"),
    "template/app/extra/more.py": lines((2, "more 2 is new"), name="more"),
    "template/logo.png": LOGO + b"second",
    "template/run.sh": b"#!/bin/sh\necho one\necho two\necho three\necho four\n",
    "template/wo rds \xc3\xbc.txt".encode("latin-1").decode(): lines((5, "words 5 is new"),
                                                                       name="words"),
    "template/notes.txt": b"notes of the template\n",
    "template/app/newdir/inside.py": lines(name="inside"),
    f"template/{VERSIONS}/0003_third.py": migration("0003", "0002"),
}  # fmt: skip
for gone in ("template/app/old_name.py", "template/app/leaving.py"):
    del SECOND[gone]


def packed(files: Files) -> tuple[TemplateFile, ...]:
    """Return files in the form that the tool seals."""
    return tuple(
        TemplateFile(path, data, path in EXECUTABLE) for path, data in sorted(files.items())
    )
