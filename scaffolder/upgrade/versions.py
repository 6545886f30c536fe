"""Which template version a project has, and which one it can get."""

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from scaffolder import __version__
from scaffolder.errors import BadInput
from scaffolder.source import INSTALL_SPEC, available_versions


@dataclass(frozen=True, slots=True)
class Step:
    """From which version to which; equal when only features change."""

    old: str
    new: str

    @property
    def is_change(self) -> bool:
        """Tell whether the version changes."""
        return self.old != self.new


def parse(text: str) -> Version | None:
    """Return a version, as this tool or a tag of plain copier writes it; None if it is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def known(text: str) -> str | None:
    """Return the name under which this tool carries a version, or None."""
    wanted = parse(text)
    return next((name for name in available_versions() if Version(name) == wanted), None)


def newest() -> str:
    """Return the version that `upgrade` goes to unless told: this tool's own."""
    return __version__


def warning(version: str, option: str) -> str | None:
    """Return what to know before a project gets this version; `option` chooses another one."""
    if not Version(version).is_prerelease:
        return None
    sealed = [name for name in available_versions() if not Version(name).is_prerelease]
    instead = f"; {option} {max(sealed, key=Version)} is the newest that can" if sealed else ""
    return (
        f"template {version} is a development version: a project that has it can't be upgraded "
        f"later{instead}"
    )


def base(stored: str) -> str:
    """Return the version a project was made from; raise BadInput when it cannot be the base."""
    version = parse(stored)
    if version is None:
        raise BadInput(
            f"the project was made from `{stored}`, which is no released template version",
            hint="generate a project with a released version, and carry your code over",
        )
    if version.is_prerelease or version.local is not None:
        raise BadInput(
            f"the project was made from template {stored}, a development version; such a version "
            "is never sealed, so nobody knows any more what it held",
            hint="generate a project with a released version, and carry your code over",
        )
    if version > Version(newest()):
        raise BadInput(
            f"the project has template {stored}, and this tool has only {newest()}",
            hint=f"pipx run --spec {INSTALL_SPEC}@{version} scaffolder upgrade",
        )
    name = known(stored)
    if name is None:
        raise BadInput(
            f"this tool does not carry template {stored}, which the project was made from; "
            f"it carries {', '.join(available_versions())}",
            hint=f"pipx run --spec {INSTALL_SPEC} scaffolder upgrade",
        )
    return name


def step(stored: str, wanted: str | None) -> Step:
    """Return the way from the stored version to the wanted one, this tool's own for None."""
    old = base(stored)
    new = known(wanted or newest())
    if new is None:
        raise BadInput(
            f"this tool has no template {wanted}; it carries {', '.join(available_versions())}",
            hint="leave --to off, or run the tool in the version you want",
        )
    if Version(new) < Version(old):
        raise BadInput(
            f"template {new} is older than the project's {old}, and an upgrade only goes forward",
            hint="to go back, revert the commit of the upgrade",
        )
    return Step(old, new)
