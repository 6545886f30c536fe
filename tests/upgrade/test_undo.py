"""The undo that is printed, and what stands in the way of a start."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.upgrade.conftest import Project, Tool, make_tool, snapshot
from tests.upgrade.templates import FIRST, SECOND


def _disturb(project: Project) -> None:
    project.replace("app/still.py", "still 1 of the template", "still 1 of the owner")
    project.write("scribble.txt", b"mine\n")
    project.write("app/new folder/\u00fc.bin", bytes(range(256)))
    project.path("icon.png").chmod(0o755)


@pytest.mark.parametrize("conflict", [False, True], ids=["clean", "conflict"])
def test_the_printed_undo_restores_the_tree_exactly(project: Project, *, conflict: bool) -> None:
    """With an unstaged edit, an untracked file and a file with only its mode changed."""
    if conflict:
        project.replace("app/lines.py", "line 10 of the template", "line 10 of the owner")
        project.replace("app/leaving.py", "leaving 2", "mine 2")
        project.write("logo.png", b"\0mine")
        project.commit()
    _disturb(project)
    before, status = project.snapshot(), project.git("status", "--porcelain=v2", "-z")
    run = project.upgrade()
    assert run.code == int(conflict), run.err
    assert project.snapshot() != before
    undo = next(row for row in run.err.splitlines() if "undo it with: " in row)
    project.git(*undo.partition("undo it with: git ")[2].split())
    assert project.snapshot() == before
    assert project.git("status", "--porcelain=v2", "-z") == status
    assert not project.path(".git/scaffolder").exists()


def test_what_the_owner_had_edited_is_the_same_after_an_upgrade(project: Project) -> None:
    """Unstaged, untracked and mode changes go through untouched, and stay unstaged."""
    _disturb(project)
    names = ("app/still.py", "scribble.txt", "app/new folder/\u00fc.bin", "icon.png", ".env")
    before = project.snapshot()
    run = project.upgrade()
    assert run.code == 0, run.err
    after = project.snapshot()
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    unstaged = project.git("diff", "--name-only").split()
    assert unstaged == ["app/still.py", "icon.png"]


def test_staged_changes_are_refused(project: Project) -> None:
    """The undo would drop them."""
    project.replace("app/still.py", "still 1 of the template", "still 1 of the owner")
    project.git("add", "app/still.py")
    before = project.snapshot()
    run = project.upgrade()
    run.refused("`app/still.py` is staged")
    assert "git commit" in run.err
    assert project.snapshot() == before
    assert project.git("diff", "--staged", "--name-only").split() == ["app/still.py"]


def test_a_file_that_is_only_meant_to_be_added_is_refused_as_staged(project: Project) -> None:
    """The undo fails on a name in the index that has no content yet."""
    project.write("n.txt", b"mine\n")
    project.git("add", "--intent-to-add", "n.txt")
    before, index = project.snapshot(), project.read(".git/index")
    for arguments in ((), ("--dry-run",)):
        run = project.upgrade(*arguments)
        run.refused("`n.txt` is staged, and the undo of an upgrade would drop that")
    assert project.snapshot() == before
    assert project.read(".git/index") == index
    project.git("restore", "--staged", ".")
    assert project.upgrade().code == 0


def test_many_staged_changes_are_counted(project: Project) -> None:
    """The first is named."""
    for name in ("a.txt", "b.txt", "c.txt"):
        project.write(name, b"mine\n")
    project.git("add", "--all")
    project.upgrade().refused("`a.txt` and 2 more are staged, and", "would drop them")


@pytest.mark.parametrize("place", ["", "services/shop"], ids=["top", "below"])
def test_an_upgrade_that_is_staged_is_named_with_its_own_undo(
    tool: Tool, pristine: Path, tmp_path: Path, place: str
) -> None:
    """Unstaged it would be the owner's edits, and the printed undo would take back nothing."""
    top = Project(tmp_path / "mono", tool)
    shutil.copytree(pristine, top.path(place), ignore=shutil.ignore_patterns(".git"))
    top.git("init", "-q")
    top.commit()
    before = top.snapshot()
    assert top.upgrade(cwd=top.path(place)).code == 0
    run = top.upgrade(cwd=top.path(place))
    run.refused("an upgrade to template 2.0.0 is staged and not committed yet")
    assert "restore" not in run.err
    undo = run.err.strip().partition("undo it with: git ")[2]
    top.git(*undo.split())
    assert top.snapshot() == before


def test_staged_answers_of_the_same_template_are_an_ordinary_change(project: Project) -> None:
    """Also when nobody can read them."""
    for text in ("project_name: shop", "project_name: [shop"):
        project.replace(".copier-answers.yml", "project_name: shop", f"# mine\n{text}")
        project.git("add", "--all")
        project.upgrade().refused("`.copier-answers.yml` is staged")


def test_an_upgrade_that_is_not_committed_is_not_upgraded_again(project: Project) -> None:
    """Its changes are staged, and its conflicts are open."""
    project.replace("app/lines.py", "line 10 of the template", "line 10 of the owner")
    project.commit()
    assert project.upgrade().code == 1
    project.upgrade().refused("`app/lines.py` still has a conflict")
    project.git("add", "--all")
    project.upgrade().refused("is staged")


def test_an_unfinished_merge_is_refused(project: Project) -> None:
    """One thing at a time."""
    project.write(".git/MERGE_HEAD", project.git("rev-parse", "HEAD").encode())
    project.upgrade().refused("a merge is not finished")


def test_a_running_git_is_not_disturbed(project: Project) -> None:
    """A lock that is not ours stays, and is named."""
    project.write(".git/index.lock", b"of another process")
    project.upgrade().refused(".git/index.lock")
    assert project.read(".git/index.lock") == b"of another process"


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_an_edit_that_git_was_told_not_to_see_is_in_the_way(project: Project, flag: str) -> None:
    """git shows no edit of such a file, and it is one."""
    project.git("update-index", flag, "app/lines.py")
    project.replace("app/lines.py", "line 1 of the template", "line 1 of the owner")
    before = project.snapshot()
    project.upgrade().refused("`app/lines.py` differs from the last commit")
    assert project.snapshot() == before


def test_a_file_outside_a_sparse_checkout_is_named_as_that(project: Project) -> None:
    """Its owner did not edit it; the whole checkout can be upgraded, and so can a branch."""
    project.git("sparse-checkout", "set", "--no-cone", "/*", "!/app/lines.py", "!/app/pages/")
    before, index = project.snapshot(), project.git("ls-files", "-v")
    run = project.upgrade()
    run.refused(
        "2 files are in the way: `app/lines.py` is outside the sparse checkout; "
        "`app/pages/index.py` is outside the sparse checkout"
    )
    hint = "hint: git sparse-checkout disable; or: scaffolder upgrade --branch NAME\n"
    assert run.err.endswith(hint)
    assert (project.snapshot(), project.git("ls-files", "-v")) == (before, index)
    branch = project.upgrade("--branch", "template-2")
    assert branch.code == 0, branch.err
    assert (project.snapshot(), project.git("ls-files", "-v")) == (before, index)
    project.git("sparse-checkout", "disable")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.git("write-tree") == project.git("rev-parse", "template-2^{tree}")


def test_of_very_many_files_in_the_way_ten_are_named(tmp_path: Path) -> None:
    """An edit first: it is in no commit, unlike what a sparse checkout leaves out."""
    many = [f"template/many/{number:02}.py" for number in range(30)]
    first = FIRST | dict.fromkeys(many, b"first\n")
    second = SECOND | dict.fromkeys(many, b"second\n")
    tool = make_tool(tmp_path / "tool", {"1.0.0": first, "2.0.0": second})
    made = tool.run(
        "new", "shop", "--yes", "--no-install", "--template-version", "1.0.0", cwd=tmp_path
    )
    assert made.code == 0, made.err
    project = Project(tmp_path / "shop", tool)
    project.git("sparse-checkout", "set", "--no-cone", "/*", "!/many/")
    project.write("run.sh", b"mine\n")
    run = project.upgrade()
    run.refused(
        "31 files are in the way: `run.sh` has an edit that is not committed; `many/00.py` is",
        "`many/08.py` is outside the sparse checkout; and 21 more",
    )
    assert "many/09.py" not in run.err
    assert "hint: commit, move or restore them; git sparse-checkout disable; or: " in run.err


def test_a_file_that_is_gone_without_a_sparse_checkout_is_no_part_of_one(project: Project) -> None:
    """Its mark alone says nothing of a sparse checkout."""
    project.git("update-index", "--skip-worktree", "app/lines.py")
    project.path("app/lines.py").unlink()
    run = project.upgrade()
    run.refused("`app/lines.py` differs from the last commit")
    assert "sparse" not in run.err


def test_a_link_in_the_way_is_never_followed(project: Project) -> None:
    """A new file below a folder that is a link would be written outside of the project."""
    outside = project.root.parent / "outside"
    outside.mkdir()
    project.git("rm", "-q", "-r", "app/pages")
    project.commit()
    project.git("commit", "-q", "--amend", "-m", "pages are elsewhere")
    project.path("app/pages").symlink_to(outside)
    before = snapshot(project.root)
    run = project.upgrade()
    assert run.code in (0, 2), run.err
    assert list(outside.iterdir()) == []
    assert snapshot(project.root)["app/pages"] == before["app/pages"]


def test_permissions_beyond_the_exec_bit_are_kept(project: Project) -> None:
    """git knows one bit; an owner may have set others."""
    project.path("app/lines.py").chmod(0o600)
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.path("app/lines.py").stat().st_mode & 0o777 == 0o600


def test_a_git_directory_on_another_file_system_works(project: Project) -> None:
    """One rename is not enough there; the last step is one all the same."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or os.stat(shm).st_dev == os.stat(project.root).st_dev:  # noqa: PTH116
        pytest.skip("there is no second file system to try it on")
    elsewhere = Path(tempfile.mkdtemp(dir=shm))
    try:
        shutil.copytree(project.path(".git"), elsewhere / "git")
        shutil.rmtree(project.path(".git"))
        project.write(".git", f"gitdir: {elsewhere / 'git'}\n".encode())
        _disturb(project)
        before = project.snapshot()
        run = project.upgrade()
        assert run.code == 0, run.err
        assert b"line 10 of the second" in project.read("app/lines.py")
        assert not project.path("app/leaving.py").exists()
        assert [name for name in project.snapshot() if "scaffolder" in name] == []
        project.git("reset", "-q", "--merge")
        assert project.snapshot() == before
    finally:
        shutil.rmtree(elsewhere)


@pytest.mark.parametrize("kind", ["binary", "deleted by the template"])
def test_an_edit_in_a_file_that_only_becomes_a_conflict_is_in_the_way(
    project: Project, kind: str
) -> None:
    """The upgrade would not write the file, but the undo would reset it."""
    name = "logo.png" if kind == "binary" else "app/leaving.py"
    project.write(name, b"mine\0" if kind == "binary" else b"mine\n")
    project.commit()
    project.write(name, b"mine and more\0")
    before = project.snapshot()
    project.upgrade().refused(f"`{name}` has an edit that is not committed")
    assert project.snapshot() == before


def test_what_cannot_be_written_takes_everything_back(project: Project) -> None:
    """A folder that refuses in the middle of the work: all files as before, no journal left."""
    folder = project.path("app/pages")
    before, status = project.snapshot(), project.git("status", "--porcelain=v2")
    if shutil.which("chattr") is None or _chattr("+i", folder) != 0:
        pytest.skip("this system or file system has no immutable folders for a test to use")
    try:
        run = project.upgrade()
    finally:
        _chattr("-i", folder)
    run.refused("app/pages/index.py", "the upgrade was taken back")
    assert project.snapshot() == before
    assert project.git("status", "--porcelain=v2") == status
    assert not project.path(".git/scaffolder").exists()
    assert not project.path(".git/index.lock").exists()


def _chattr(flag: str, folder: Path) -> int:
    return subprocess.run(["chattr", flag, folder], capture_output=True, check=False).returncode


def test_a_repository_with_longer_ids_is_upgraded_alike(project: Project) -> None:
    """SHA-256 object names."""
    shutil.rmtree(project.path(".git"))
    project.git("init", "-q", "--object-format=sha256")
    project.replace("app/lines.py", "line 10 of the template", "line 10 of the owner")
    project.commit()
    before = project.snapshot()
    run = project.upgrade()
    assert run.code == 1, run.err
    assert project.unmerged() == {"app/lines.py": {1, 2, 3}}
    project.git("reset", "-q", "--merge")
    assert project.snapshot() == before


def test_an_edit_saved_while_its_file_is_replaced_is_kept_beside_it(project: Project) -> None:
    """An editor does not know of the lock."""
    old, file = project.read("app/lines.py"), project.path("app/lines.py")
    run = project.tool.start("upgrade", cwd=project.root, edit=file).wait()
    assert run.code == 0, run.err
    assert b"line 10 of the second template" in project.read("app/lines.py")
    assert project.read("app/lines.py.yours") == old + b"saved at the last moment\n"
    assert "the edit is in app/lines.py.yours" in run.err


def test_what_lies_in_a_folder_in_the_way_is_named(project: Project) -> None:
    """A file, or a link to another folder, where the template adds a file."""
    project.path("notes.txt").mkdir()
    project.path("notes.txt/link").symlink_to("../app")
    before = project.snapshot()
    project.upgrade().refused("`notes.txt/link` is not tracked, and the template adds notes.txt")
    assert project.snapshot() == before
