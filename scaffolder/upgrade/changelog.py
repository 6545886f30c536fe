"""What releases changed, read from the changelog that travels with the template."""

import re
from dataclasses import dataclass

from packaging.version import Version

from scaffolder.upgrade.versions import Step, parse

CHANGELOG = "CHANGELOG.md"
_RELEASE = re.compile(r"^## +\[?v?([^\]\s]+)")
_PART = re.compile(r"^### +(.+?)\s*$")
_FOR_PROJECTS = "what an upgrade changes in your project"


@dataclass(frozen=True, slots=True)
class News:
    """One release: what an upgrade to it changes in a project, line by line."""

    version: str
    lines: tuple[str, ...]


def news(changelog: str | None, step: Step) -> tuple[News, ...]:
    """Return the releases after the old version up to the new one, oldest first."""
    found = []
    for title, lines in _sections(changelog or ""):
        version = parse(title)
        if version is None:
            # What is not released yet is what a development version holds.
            wanted = title.lower() == "unreleased" and Version(step.new).is_devrelease
            title, key = step.new, Version(step.new)
        else:
            wanted, key = Version(step.old) < version <= Version(step.new), version
        if wanted:
            found.append((key, News(title, _for_projects(lines))))
    return tuple(each for _, each in sorted(found, key=lambda pair: pair[0]))


def _sections(text: str) -> list[tuple[str, list[str]]]:
    sections: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if heading := _RELEASE.match(line):
            sections.append((heading[1], []))
        elif sections:
            sections[-1][1].append(line)
    return sections


def _for_projects(lines: list[str]) -> tuple[str, ...]:
    """Return the part written for projects; the whole section where there is none."""
    part, chosen = "", []
    for line in lines:
        if heading := _PART.match(line):
            part = heading[1].lower()
        elif part == _FOR_PROJECTS and line.strip():
            chosen.append(line.rstrip())
    whole = [line.rstrip() for line in lines if line.strip() and not line.startswith("#")]
    return tuple(chosen or whole)
