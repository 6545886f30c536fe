"""What a project may be called: a distribution, a command and a folder bear this name."""

import keyword
import re

from scaffolder.errors import BadInput

_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_OWN_COMMAND = re.compile(r"(python|pip)[0-9.]*|activate", re.IGNORECASE)
_LONGEST = 64


def check_name(name: str, *, dependencies: frozenset[str] = frozenset()) -> None:
    """Raise BadInput unless `name` can name a distribution, a command and a folder.

    `dependencies` are the normalised names of what the application installs: a project of the
    same name would depend on itself.
    """
    rule = _broken_rule(name, dependencies)
    if rule is not None:
        shown = name if name.isprintable() else ascii(name)
        raise BadInput(f"project name `{shown}` cannot be used: {rule}", hint=_hint(name))


def _broken_rule(name: str, dependencies: frozenset[str]) -> str | None:
    if not _DISTRIBUTION.fullmatch(name):
        return (
            "a name has ASCII letters, digits, `-`, `_` and `.`, "
            "and starts and ends with a letter or digit"
        )
    if len(name) > _LONGEST:
        return f"it has {len(name)} characters, at most {_LONGEST} are allowed"
    if keyword.iskeyword(name):
        return "it is a word of the Python language"
    if _DEVICE.fullmatch(name):
        return "Windows reserves it for a device"
    if _OWN_COMMAND.fullmatch(name):
        return "the virtual environment has a command of that name"
    if normalised(name) in dependencies:
        return "the application depends on a package of that name"
    return None


def normalised(name: str) -> str:
    """Return the form in which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned_names(constraints: str | None) -> frozenset[str]:
    """Return the normalised names that a constraints file pins."""
    lines = (constraints or "").splitlines()
    return frozenset(
        normalised(line.partition("==")[0].strip())
        for line in lines
        if "==" in line and not line.startswith("#")
    )


def _hint(name: str) -> str:
    suggestion = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:_LONGEST].strip("-")
    if suggestion == name.lower():
        suggestion = f"{suggestion[: _LONGEST - 4]}-app"
    if not suggestion or _broken_rule(suggestion, frozenset()) is not None:
        suggestion = "my-app"
    return f"scaffolder new {suggestion}"
