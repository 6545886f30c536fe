"""Database migrations: whatever both sides add, the history stays one line.

The template writes its migrations as one chain, and the owner adds own ones to the end of it. A
newer template's migrations then start in the middle: two heads. Since nobody has applied them
yet, they are moved behind the owner's last one, in the template's order. A migration that the
project already has never changes its place and is never removed: databases have run it.
The files are parsed, never imported.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FOLDER = "app/migrations/versions/"
_LINE = r"^{name}(\s*:[^=\n]+)?\s*=\s*.*$"
_LONGEST = 32  # of alembic_version.version_num


@dataclass(frozen=True, slots=True)
class Migration:
    """One revision file."""

    path: str
    revision: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chained:
    """New texts of migration files, and what was done in words."""

    texts: dict[str, bytes]
    notes: tuple[str, ...]


def read_migration(path: str, data: bytes) -> Migration | None:
    """Return what a revision file says of itself; None when that takes running it."""
    try:
        module = ast.parse(data)
    except (SyntaxError, ValueError):
        return None
    values: dict[str, object] = {}
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values[name] = _literal(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                values[name] = _literal(value)
    revision, down = values.get("revision"), values.get("down_revision", ...)
    if not isinstance(revision, str):
        return None
    match down:
        case None:
            return Migration(path, revision, ())
        case str():
            return Migration(path, revision, (down,))
        case tuple() | list():
            return Migration(path, revision, tuple(str(each) for each in down))
    return None


def _literal(value: ast.expr) -> object:
    try:
        return ast.literal_eval(value)
    except ValueError:
        return ...


def is_migration(path: str) -> bool:
    """Tell whether a path of the project is a revision file."""
    name = path.removeprefix(FOLDER)
    return path.startswith(FOLDER) and name.endswith(".py") and "/" not in name and name[0] != "_"


def heads(migrations: Iterable[Migration]) -> tuple[str, ...]:
    """Return the revisions that no other one follows."""
    known = list(migrations)
    followed = {parent for each in known for parent in each.parents}
    return tuple(sorted(each.revision for each in known if each.revision not in followed))


def chain(present: Mapping[str, bytes], added: Mapping[str, bytes]) -> Chained:
    """Return the added migrations moved behind the present ones, where that is needed.

    `present` are the files of the project before the upgrade, `added` those the template adds;
    the template numbers its files in the order of its chain.
    """
    old = {path: read_migration(path, data) for path, data in present.items()}
    new = {path: read_migration(path, data) for path, data in added.items()}
    unreadable = sorted(path for path, each in (old | new).items() if each is None)
    if unreadable and added:
        note = f"migrations: {', '.join(unreadable)} cannot be read without running it; "
        return Chained({}, (note + "see that `db check` finds one head",))
    return _chain(
        [each for each in old.values() if each is not None],
        [each for path in sorted(new) if (each := new[path]) is not None],
        added,
    )


def _chain(old: list[Migration], new: list[Migration], added: Mapping[str, bytes]) -> Chained:
    texts: dict[str, bytes] = {}
    notes = []
    last, taken = heads(old), {each.revision for each in old}
    if len(last) > 1:
        notes.append(
            f"migrations: your history has {len(last)} heads: {', '.join(last)}; "
            + ("the template's next migration joins them" if new else "join them with a migration")
        )
    for each in new:
        name = _free(each.revision, each.path, taken)
        taken.add(name)
        text = added[each.path]
        if name != each.revision:
            text = _assign(text, "revision", _quoted(name))
            notes.append(f"migrations: {each.path} is revision {name} here; "
                         f"your project already has a revision {each.revision}")  # fmt: skip
        if each.parents != last:
            text = _assign(text, "down_revision", _parents(last))
            notes.append(f"migrations: {each.path} follows {' and '.join(last) or 'nothing'} here, "
                         "so that the history stays one line")  # fmt: skip
        if text != added[each.path]:
            texts[each.path] = text
        last = (name,)
    return Chained(texts, tuple(notes))


def _free(revision: str, path: str, taken: set[str]) -> str:
    if revision not in taken:
        return revision
    stem = path.removeprefix(FOLDER).removesuffix(".py")
    candidates = [stem, f"{revision}_template", *(f"{revision}_{n}" for n in range(2, 1000))]
    return next(name for name in candidates if name not in taken and len(name) <= _LONGEST)


def _parents(revisions: tuple[str, ...]) -> str:
    if len(revisions) > 1:
        return "(" + ", ".join(_quoted(each) for each in revisions) + ")"
    return _quoted(revisions[0]) if revisions else "None"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def relinked(present: Mapping[str, bytes], template: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return new texts of the migrations whose parent belongs to a feature that is left out.

    The template's files are one chain with every feature; where some are absent, the ones behind
    follow the nearest that is there.
    """
    known = {each.revision: each for each in _readable(template)}
    here = {each.revision for each in _readable(present)}
    texts = {}
    for each in _readable(present):
        parents = each.parents
        while any(parent in known and parent not in here for parent in parents):
            parents = tuple(
                ancestor
                for parent in parents
                for ancestor in ((parent,) if parent in here else known[parent].parents)
            )
        if parents != each.parents:
            texts[each.path] = _assign(present[each.path], "down_revision", _parents(parents))
    return texts


def _readable(texts: Mapping[str, bytes]) -> list[Migration]:
    read = [read_migration(path, data) for path, data in texts.items()]
    return [each for each in read if each is not None]


def with_place_of(text: bytes, place: Migration) -> bytes:
    """Return a revision file that keeps its old place in the history."""
    text = _assign(text, "revision", _quoted(place.revision))
    return _assign(text, "down_revision", _parents(place.parents))


def _assign(text: bytes, name: str, value: str) -> bytes:
    pattern = re.compile(_LINE.format(name=name), re.MULTILINE)
    source = text.decode()
    return pattern.sub(lambda found: f"{name}{found[1] or ''} = {value}", source, count=1).encode()
