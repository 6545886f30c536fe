"""Where the template comes from: the bundle inside the wheel, or the work tree of a checkout.

Nothing here needs the network. A final version is sealed and never changes; a development
version is whatever the work tree held when the wheel was built, or holds now.
"""

from dataclasses import dataclass
from pathlib import Path

from scaffolder import __version__
from scaffolder.errors import BadInput, CannotProceed
from scaffolder.packing import (
    BUNDLE_NAME,
    TemplateFile,
    bundled_versions,
    read_archive,
    read_tree,
    sealed_versions,
)

# A reserved name until the project has a home; `copier update` pulls from what stands here.
CANONICAL_URL = "https://git.example.org/scaffolder.git"
# How the tool is run where it is not installed; the bare name belongs to another project.
INSTALL_SPEC = f"git+{CANONICAL_URL}"

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of the template, in memory: `copier.yml` and everything below `template/`."""

    version: str
    files: tuple[TemplateFile, ...]

    def text(self, path: str) -> str | None:
        """Return the text of one file, or None when this version has no such file."""
        for file in self.files:
            if file.path == path:
                return file.data.decode()
        return None


def available_versions() -> tuple[str, ...]:
    """Return the template versions this installation can render, oldest first."""
    from packaging.version import Version

    bundle = _HERE / BUNDLE_NAME
    if bundle.is_file():
        return tuple(sorted(bundled_versions(bundle), key=Version))
    return tuple(sorted({*sealed_versions(_HERE.parent / "releases"), __version__}, key=Version))


def open_snapshot(version: str | None = None) -> Snapshot:
    """Return one version of the template; None means this tool's own."""
    wanted = version or __version__
    files = _read(wanted)
    if not files:
        known = ", ".join(available_versions())
        raise BadInput(
            f"template version `{wanted}` is not part of this tool, which carries {known}",
            hint="leave --template-version off, or run the tool in the version you want",
        )
    return Snapshot(wanted, files)


def _read(version: str) -> tuple[TemplateFile, ...]:
    bundle = _HERE / BUNDLE_NAME
    try:
        if bundle.is_file():
            return read_archive(bundle, version)
        if (sealed := sealed_versions(_HERE.parent / "releases").get(version)) is not None:
            return read_archive(sealed)
    except Exception as error:  # noqa: BLE001 - each decompressor has errors of its own
        raise CannotProceed(
            f"the template archive of this installation cannot be read ({type(error).__name__})",
            hint=f"pipx run --spec {INSTALL_SPEC} scaffolder --help",
        ) from None
    return _work_tree() if version == __version__ else ()


def _work_tree() -> tuple[TemplateFile, ...]:
    checkout = _HERE.parent
    if not (checkout / "copier.yml").is_file():
        raise CannotProceed(
            f"this installation has no template: neither `{BUNDLE_NAME}` in {_HERE} "
            f"nor `copier.yml` in {checkout}",
            hint=f"pipx run --spec {INSTALL_SPEC} scaffolder --help",
        )
    return read_tree(checkout)
