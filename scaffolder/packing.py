"""The template as a set of files, and as an archive.

A wheel must not carry the template as loose files: installers byte-compile every `.py` they
find. So the build hook packs all versions into one solid archive (`bundle`), and `releases/`
holds one sealed archive per final version (`seal`). Archives are deterministic: sorted names,
no times, no owners, modes 644 and 755 only. Standard library only, since the build hook
imports this module before anything is installed.
"""

import gzip
import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

BUNDLE_NAME = "templates.tar.xz"

_SKIPPED_NAMES = frozenset(
    {"__pycache__", ".venv", ".git", ".hypothesis", ".coverage", ".DS_Store", "node_modules"}
)
_SKIPPED_SUFFIXES = (".pyc", ".pyo", ".pyd", "_cache", ".egg-info", ".db", ".db-wal", ".db-shm")
_SKIPPED_PATHS = frozenset({"template/.env", "template/data", "template/build", "template/dist"})


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """One file of a template; `path` is relative to the template repository, with slashes."""

    path: str
    data: bytes
    executable: bool


def read_tree(root: Path) -> tuple[TemplateFile, ...]:
    """Return what belongs to the template in a source tree, sorted, without local litter."""
    # The changelog travels along: an upgrade tells from it what each release changes.
    found = [root / "copier.yml", *root.glob("CHANGELOG.md"), *_walk(root / "template", root)]
    files = [
        TemplateFile(
            path=path.relative_to(root).as_posix(),
            data=path.read_bytes(),
            executable=bool(path.stat().st_mode & 0o100),
        )
        for path in found
    ]
    return tuple(sorted(files, key=lambda file: file.path))


def _walk(folder: Path, root: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        name = path.name
        if name in _SKIPPED_NAMES or name.endswith(_SKIPPED_SUFFIXES):
            continue
        if path.relative_to(root).as_posix() in _SKIPPED_PATHS:
            continue
        if path.is_dir():
            yield from _walk(path, root)
        else:
            yield path


def seal(files: Iterable[TemplateFile]) -> bytes:
    """Return the `.tar.gz` of one version."""
    return gzip.compress(_tar({"": files}), mtime=0)


def bundle(versions: Mapping[str, Iterable[TemplateFile]]) -> bytes:
    """Return one solid `.tar.xz` with a folder per version.

    Solid, because twenty versions then weigh about as much as one: they share most lines.
    """
    import lzma  # only the build needs the compressor

    return lzma.compress(_tar(versions), preset=9)


def _tar(folders: Mapping[str, Iterable[TemplateFile]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in sorted(folders):
            for file in sorted(folders[folder], key=lambda file: file.path):
                entry = tarfile.TarInfo((PurePosixPath(folder) / file.path).as_posix())
                entry.size = len(file.data)
                entry.mode = 0o755 if file.executable else 0o644
                archive.addfile(entry, io.BytesIO(file.data))
    return buffer.getvalue()


def read_archive(path: Path, folder: str = "") -> tuple[TemplateFile, ...]:
    """Return the files of a sealed archive, or of one version's `folder` in a bundle."""
    prefix = f"{folder}/" if folder else ""
    with tarfile.open(path) as archive:
        return tuple(
            TemplateFile(
                path=entry.name.removeprefix(prefix),
                data=_content(archive, entry),
                executable=bool(entry.mode & 0o100),
            )
            for entry in archive
            if entry.isfile() and entry.name.startswith(prefix)
        )


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(entry)
    return b"" if stream is None else stream.read()


def bundled_versions(path: Path) -> tuple[str, ...]:
    """Return the version folders of a bundle."""
    with tarfile.open(path) as archive:
        return tuple(sorted({name.partition("/")[0] for name in archive.getnames()}))


def sealed_versions(releases: Path) -> dict[str, Path]:
    """Return the sealed archives of a source tree by version."""
    return {path.name.removesuffix(".tar.gz"): path for path in sorted(releases.glob("*.tar.gz"))}


def unpack(files: Iterable[TemplateFile], into: Path) -> None:
    """Write the files below `into`, with normal modes."""
    for file in files:
        path = into / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(0o755 if file.executable else 0o644)


class SealBroken(Exception):
    """The template differs from the sealed archive of the same final version."""


def all_versions(root: Path, version: str) -> dict[str, tuple[TemplateFile, ...]]:
    """Return every sealed version and the work tree as `version`.

    A final version is sealed for good: a work tree that differs from its seal raises
    SealBroken. A development version (`.dev`) has no seal and packs whatever is there.
    """
    sealed = sealed_versions(root / "releases")
    versions = {name: read_archive(path) for name, path in sealed.items()}
    tree = read_tree(root)
    if versions.get(version, tree) != tree:
        raise SealBroken(
            f"the template differs from releases/{version}.tar.gz, and a sealed version never "
            "changes; give the change a new version"
        )
    if ".dev" not in version and version not in versions:
        raise SealBroken(f"version {version} has no seal in releases/; use `make release`")
    return {**versions, version: tree}
