"""Applies the rules of `schema` to a merge: no migration lost, none moved, none beside the line."""

from scaffolder.upgrade.merging import Merge
from scaffolder.upgrade.schema import Migration, chain, is_migration, read_migration, with_place_of
from scaffolder.upgrade.scratch import Scratch
from scaffolder.upgrade.trees import Tree

Texts = dict[str, bytes]


def keep_history(merge: Merge, scratch: Scratch) -> dict[str, str]:
    """Mend the migrations of a merge; return the paths that stay, with the reason.

    What was moved is told in the notes of the merge.
    """
    present = _texts(scratch, merge.sides.yours)
    merged = _texts(scratch, merge.tree)
    kept = _restore_removed(merge, present, merged)
    _restore_places(merge, scratch, present, merged)
    gone = {each.revision for path, each in _read(present).items() if path not in merge.tree}
    added = {
        path: data
        for path, data in merged.items()
        if path not in present and path not in merge.unmerged and path in merge.sides.theirs
        if (each := read_migration(path, data)) is None or each.revision not in gone
    }  # fmt: skip
    chained = chain(present, added)
    for path, text in chained.texts.items():
        merge.tree[path] = scratch.changed(merge.tree[path], text)
    merge.notes += chained.notes
    return kept


def _restore_removed(merge: Merge, present: Texts, merged: Texts) -> dict[str, str]:
    still = {each.revision for each in _read(merged).values()}
    kept = {}
    for path, migration in _read(present).items():
        removed = path in merge.sides.base and path not in merge.sides.theirs
        moved = path not in merge.tree and migration.revision in still
        if removed and not moved:
            merge.tree[path] = merge.sides.yours[path]
            merge.unmerged.pop(path, None)
            kept[path] = "the template leaves it out, but databases have run this migration"
            merge.notes.append(
                f"migrations: {path} stays; drop its tables with a migration of your own"
            )
    return kept


def _restore_places(merge: Merge, scratch: Scratch, present: Texts, merged: Texts) -> None:
    places, now = _read(present), _read(merged)
    for path in places.keys() & now.keys() - merge.unmerged.keys():
        if _place(places[path]) != _place(now[path]):
            text = with_place_of(merged[path], places[path])
            merge.tree[path] = scratch.changed(merge.tree[path], text)


def _place(migration: Migration) -> tuple[str, tuple[str, ...]]:
    return migration.revision, migration.parents


def _texts(scratch: Scratch, tree: Tree) -> Texts:
    found = {p: entry for p, entry in tree.items() if is_migration(p) and entry.is_file}
    contents = scratch.read_all(found.values())
    return {path: contents[entry.oid] for path, entry in found.items()}


def _read(texts: Texts) -> dict[str, Migration]:
    read = {path: read_migration(path, data) for path, data in texts.items()}
    return {path: each for path, each in read.items() if each is not None}
