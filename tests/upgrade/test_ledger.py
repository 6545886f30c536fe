"""Random edit scripts against a ledger: no byte of an owner's edit is missing afterwards.

Every edit writes something unique. After the upgrade each of them must be found in the work
tree, in markers or in a stage of the index; whatever the template does not change must be the
same to the byte; and the undo must give back everything. `UPGRADE_EXAMPLES=10000` is the long form.
"""

import os
import shutil
import stat
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st

from scaffolder.errors import BadInput
from scaffolder.source import CANONICAL_URL, Snapshot
from scaffolder.upgrade import rendering
from scaffolder.upgrade.engine import Result, combine
from scaffolder.upgrade.journal import Area
from scaffolder.upgrade.rendering import Origin, Rendered
from scaffolder.upgrade.repository import open_repository
from scaffolder.upgrade.scratch import open_scratch
from scaffolder.upgrade.transaction import apply
from tests.upgrade.conftest import Project, Tool, snapshot
from tests.upgrade.templates import FIRST, SECOND, Files, packed

EXAMPLES = int(os.environ.get("UPGRADE_EXAMPLES", "200"))
Contents = dict[str, tuple[str, int, bytes]]
# Where both sides meet: what the template adds, renames or has a folder for.
MEETING = (
    "app/added.py",
    "app/pages/list.py",
    "app/new_name.py",
    "notes.txt",
    "app/added.py/inside",
    "app/newdir",
    "app/pages/new/deep.py",
    "app/mine.py",
    "mine/caf\u00e9 \n.txt",
)


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit; the numbers choose file and line, whatever is there by then."""

    kind: str
    file: int
    line: int
    committed: bool


# Ignored files, the rules for them, and the answers have tests of their own.
NOT_EDITED = (".env", ".gitignore", ".copier-answers.yml")
KINDS = (
    "replace", "insert", "drop", "append", "delete", "rename", "chmod", "crlf", "binary",
    "rewrite", "add", "link", "move_folder", "copy", "delete_folder",
)  # fmt: skip
edits = st.lists(
    st.builds(
        Edit,
        st.sampled_from(KINDS),
        st.integers(0, 40),
        st.integers(0, 25),
        st.sampled_from([True] * 9 + [False]),
    ),
    min_size=1,
    max_size=8,
)


@dataclass(frozen=True, slots=True)
class World:
    """The pristine repository and both rendered templates."""

    pristine: Path
    old: Rendered
    new: Rendered
    box: Path
    tool: Tool


@pytest.fixture(scope="module")
def world(pristine: Path, tool: Tool, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Rendered once, by copier; merging is what is repeated."""
    box = tmp_path_factory.mktemp("ledger")
    packed_up = Project(box / "pristine", tool)
    shutil.copytree(pristine, packed_up.root)
    packed_up.git("gc", "-q")
    old = _rendered(FIRST, "1.0.0", box / "old")
    return World(packed_up.root, old, _rendered(SECOND, "2.0.0", box / "new"), box, tool)


def _rendered(files: Files, version: str, box: Path) -> Rendered:
    box.mkdir()
    data: dict[str, str | bool] = {"project_name": "shop", "database": "sqlite", "extra": False}
    origin = Origin(version, CANONICAL_URL)
    return rendering.render(Snapshot(version, packed(files)), data, origin, box)


@given(script=edits)
@example(script=[Edit("add", 14, 0, True), Edit("link", 8, 0, True)])  # where a folder comes
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 200,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_byte_of_an_edit_is_missing(world: World, script: list[Edit]) -> None:
    """Edit, rename, delete, chmod, CRLF, binary, link, add at the same path, in any order."""
    project = Project(world.box / "shop", world.tool)
    shutil.rmtree(project.root, ignore_errors=True)
    shutil.copytree(world.pristine, project.root, symlinks=True)
    first = [edit for edit in script if edit.committed]
    for number, edit in enumerate(first):
        perform(project.root, edit, f"owner-{number}")
    project.git("add", "--all")
    project.git("commit", "-q", "--allow-empty", "-m", "edits")
    committed = project.snapshot()
    for number, edit in enumerate(each for each in script if not each.committed):
        perform(project.root, edit, f"loose-{number}")
    check(world, project, committed, project.snapshot())


def check(world: World, project: Project, committed: Contents, before: Contents) -> None:
    """Upgrade, and compare with the ledger."""
    status = project.git("status", "--porcelain=v2", "-z")
    result = _upgrade(world, project)
    if result is None:
        event("refused: something is in the way")
        assert project.snapshot() == before
        assert project.git("status", "--porcelain=v2", "-z") == status
        return
    event("conflict" if result.conflicts else "clean")
    after, stages = project.snapshot(), _stages(project)
    base = snapshot(world.old.folder)
    _check_loose(committed, before, after)
    # What was edited again without a commit is looked at above; the commit itself still holds it.
    committed = {path: value for path, value in committed.items() if before.get(path) == value}
    theirs = snapshot(world.new.folder)
    _check_written(base, theirs, committed, after, stages)
    _check_untouched(base, theirs, committed, after, project.unmerged())
    _check_deleted(base, theirs, before, after)
    _check_markers(before, after, project)
    project.git("reset", "-q", "--merge")
    assert project.snapshot() == before, "the undo gives back everything"
    assert project.git("status", "--porcelain=v2", "-z") == status


def _upgrade(world: World, project: Project) -> Result | None:
    box = world.box / "scratch"
    shutil.rmtree(box, ignore_errors=True)
    repository = open_repository(project.root)
    scratch = open_scratch(box, repository)
    result = combine(repository, scratch, world.old, world.new)
    try:
        apply(repository, scratch, result)
    except BadInput:
        assert not Area(repository.git_dir).folder.exists()
        return None
    return result


def _check_loose(committed: Contents, before: Contents, after: Contents) -> None:
    for path in before.keys() | committed.keys():
        if before.get(path) != committed.get(path):
            assert after.get(path) == before.get(path), f"{path} was not committed"


def _check_written(
    base: Contents,
    theirs: Contents,
    committed: Contents,
    after: Contents,
    stages: Sequence[bytes],
) -> None:
    """Every line and every binary of the owner's is somewhere; a link is where it was, or beside
    the folder that the template has there.
    """
    everything = b"\n".join([*(value[2] for value in after.values()), *stages])
    known = {line for value in base.values() for line in value[2].splitlines()}
    for path, (kind, _mode, data) in committed.items():
        if kind == "link":
            aside = any(name.startswith(f"{path}/") for name in theirs)
            assert after[f"{path}~yours" if aside else path] == committed[path], path
        elif b"\0" in data[:8000]:
            assert data in everything, path
        else:
            lost = [
                line
                for line in data.splitlines()
                if line not in known and line.strip() and line not in everything
            ]
            assert lost == [], path


def _check_untouched(
    base: Contents, theirs: Contents, committed: Contents, after: Contents, unmerged: Container[str]
) -> None:
    """What the template does not change is the same, its exec bit too."""
    known = {line for value in base.values() for line in value[2].splitlines()}
    for path, value in committed.items():
        if path in base:
            if base[path] == theirs.get(path):
                assert after.get(path) == value, path
        elif path not in theirs and known.isdisjoint(value[2].splitlines()):
            # Like no file of the template, so not one that was renamed.
            places = (after.get(path), after.get(f"{path}~yours"))
            assert value in places or path in unmerged, path


def _check_deleted(base: Contents, theirs: Contents, before: Contents, after: Contents) -> None:
    contents = {value[2] for value in before.values()}
    for path, value in base.items():
        gone = path not in before and value[2] not in contents
        if gone and value == theirs.get(path):
            assert path not in after, f"{path} came back"


def _check_markers(before: Contents, after: Contents, project: Project) -> None:
    """Markers only where the index says so."""
    unmerged = project.unmerged()
    for path, (_, _, data) in after.items():
        if b"<<<<<<< yours\n" in data and path not in before:
            assert path in unmerged, path


def _stages(project: Project) -> list[bytes]:
    listed = project.git("ls-files", "--unmerged", "-z").split("\0")[:-1]
    oids = sorted({line.split()[1] for line in listed})
    shown = [project.git("cat-file", "blob", oid) for oid in oids]
    return [text.encode(errors="surrogateescape") for text in shown]


def perform(root: Path, edit: Edit, token: str) -> None:
    """Do one edit to what is there; `token` makes it unique."""
    paths = sorted(name for name in snapshot(root) if name not in NOT_EDITED)
    if edit.kind == "add":
        _write(root / MEETING[edit.file % len(MEETING)], f"{token} one\n{token} two\n".encode())
        return
    if not paths:
        return
    path = root / paths[edit.file % len(paths)]
    if path.is_symlink():
        return
    match edit.kind:
        case "delete":
            path.unlink()
        case "delete_folder":
            if path.parent != root:
                shutil.rmtree(path.parent)
        case "rename":
            path.rename(path.with_name(f"{token}-{path.name}"))
        case "move_folder":
            if path.parent != root:
                path.parent.rename(path.parent.with_name(f"{token}-{path.parent.name}"))
        case "copy":
            shutil.copy(path, path.with_name(f"{token}-{path.name}"))
        case "chmod":
            path.chmod(stat.S_IMODE(path.stat().st_mode) ^ 0o111)
        case "link":
            path.unlink()
            path.symlink_to(token)
        case "binary":
            path.write_bytes(b"\0\xff" + token.encode() + bytes(range(200)))
        case kind:
            path.write_bytes(TEXTS[kind](path.read_bytes(), edit.line, token.encode()))


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.write_bytes(data)
    except OSError:
        return


def _lines(change: Callable[[list[bytes], int, bytes], None]) -> Callable[..., bytes]:
    def apply_to(data: bytes, line: int, token: bytes) -> bytes:
        rows = data.splitlines(keepends=True) or [b"\n"]
        change(rows, line % len(rows), token)
        return b"".join(rows)

    return apply_to


TEXTS: dict[str, Callable[..., bytes]] = {
    "replace": _lines(lambda rows, at, token: rows.__setitem__(at, token + b" replaced\n")),
    "insert": _lines(lambda rows, at, token: rows.insert(at, token + b" inserted\n")),
    "append": lambda data, _line, token: data + token + b" without a line end",
    "drop": _lines(lambda rows, at, _token: rows.__delitem__(at)),
    "crlf": lambda data, _line, _token: data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "rewrite": lambda _data, line, token: b"".join(
        b"%s row %d\n" % (token, number) for number in range(line + 1)
    ),
}


def test_the_templates_are_what_the_tool_renders(world: World) -> None:
    """The rendered base is the project that `new` made, but for `.env`."""
    made = {k: v[2] for k, v in snapshot(world.pristine).items() if k != ".env"}
    assert {k: v[2] for k, v in snapshot(world.old.folder).items()} == made
