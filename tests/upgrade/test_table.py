"""Every case of the table of measured behaviour: copier's own update loses work in six of them.

Each test names what an owner did; the outcome is that no byte of it is gone.
"""

import shutil
from pathlib import Path

import pytest

from tests.upgrade.conftest import Project, Tool, make_tool
from tests.upgrade.templates import COPIER_YML, FIRST, LOGO, SECOND, lines


def test_an_edit_in_another_place_is_merged(project: Project) -> None:
    """Both changes are in the file, and there is nothing to settle."""
    project.replace("app/lines.py", "line 2 of the template", "line 2 of the owner")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert run.verdicts["app/lines.py"] == "merged"
    expected = lines((2, "line 2 of the owner"), (10, "line 10 of the second template"))
    assert project.read("app/lines.py") == expected


@pytest.mark.parametrize("line", [10, 9, 11], ids=["same", "above", "below"])
def test_an_edit_of_the_same_or_the_next_line_gets_markers(project: Project, line: int) -> None:
    """A conflict has both sides and what was there before, and is one for git too."""
    mine = f"line {line} of the owner"
    project.replace("app/lines.py", f"line {line} of the template", mine)
    project.commit()
    run = project.upgrade()
    assert run.code == 1, run.err
    assert run.verdicts["app/lines.py"] == "conflict"
    text = project.read("app/lines.py").decode()
    markers = ("<<<<<<< yours", "||||||| template 1.0.0", "=======", ">>>>>>> template 2.0.0")
    assert [text.count(f"{marker}\n") for marker in markers] == [1, 1, 1, 1]
    assert mine in text
    assert "line 10 of the second template" in text
    assert project.unmerged() == {"app/lines.py": {1, 2, 3}}
    assert "git reset --merge" in run.err


def test_a_file_that_the_owner_deleted_stays_deleted_and_is_listed(project: Project) -> None:
    """A deletion is an edit; that the template changed the file is told."""
    project.path("app/lines.py").unlink()
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert run.verdicts["app/lines.py"] == "kept deleted"
    assert not project.path("app/lines.py").exists()
    assert project.git("ls-files", "app/lines.py") == ""


def test_a_file_that_the_owner_deleted_stays_deleted_where_the_template_renamed_it(
    project: Project,
) -> None:
    """Under its new name it is the same file."""
    project.path("app/old_name.py").unlink()
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert run.verdicts["app/new_name.py"] == "kept deleted"
    assert not project.path("app/new_name.py").exists()


def test_a_folder_that_the_owner_deleted_stays_deleted(project: Project) -> None:
    """Neither a changed nor an added file of it comes back, and both are listed."""
    shutil.rmtree(project.path("app/pages"))
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert run.verdicts["app/pages/index.py"] == "kept deleted"
    assert run.verdicts["app/pages/list.py"] == "kept deleted"
    assert not project.path("app/pages").exists()


def test_a_file_that_the_owner_added_is_kept(project: Project) -> None:
    """What the template does not know is not its business."""
    project.write("app/mine.py", b"mine\n")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "app/mine.py" not in run.verdicts
    assert project.read("app/mine.py") == b"mine\n"


def test_a_path_that_both_added_gets_markers(project: Project) -> None:
    """Both contents are there to choose from."""
    project.write("app/added.py", b"mine\n")
    project.commit()
    run = project.upgrade()
    assert run.code == 1, run.err
    text = project.read("app/added.py")
    assert b"mine\n" in text
    assert lines(name="added") in text
    assert project.unmerged() == {"app/added.py": {2, 3}}


def test_a_path_that_both_added_alike_is_no_conflict(project: Project) -> None:
    """The same text from both sides is nothing to settle."""
    project.write("app/added.py", lines(name="added"))
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "app/added.py" not in run.verdicts


def test_an_edit_moves_along_when_the_template_renames_the_file(project: Project) -> None:
    """copier loses the edit without a word here."""
    project.replace("app/old_name.py", "moved 2 of the template", "moved 2 of the owner")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert run.verdicts["app/new_name.py"] == "renamed"
    assert "app/old_name.py" not in run.verdicts
    expected = lines((2, "moved 2 of the owner"), (20, "moved 20 is new"), name="moved")
    assert project.read("app/new_name.py") == expected
    assert not project.path("app/old_name.py").exists()


def test_a_change_follows_when_the_owner_renamed_the_file(project: Project) -> None:
    """The template's change arrives under the owner's name."""
    project.git("mv", "app/lines.py", "app/rows.py")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.read("app/rows.py") == lines((10, "line 10 of the second template"))
    assert not project.path("app/lines.py").exists()


def test_new_files_follow_when_the_owner_moved_the_folder(project: Project) -> None:
    """The whole package under another name: changes and additions go there too."""
    project.git("mv", "app", "service")
    project.commit()
    run = project.upgrade()
    assert project.read("service/lines.py") == lines((10, "line 10 of the second template"))
    assert project.read("service/added.py") == lines(name="added")
    assert project.read("service/pages/list.py") == lines(name="list")
    assert not project.path("app/lines.py").exists()
    assert run.code == 1, run.err
    conflicts = {path for path, verdict in run.verdicts.items() if verdict == "conflict"}
    both_moved = {
        "app/old_name.py",
        "app/new_name.py",
        "service/old_name.py",
        "service/new_name.py",
    }
    moved_and_removed = {"service/leaving.py"}
    assert conflicts <= both_moved | moved_and_removed


def test_a_file_that_the_owner_edited_stays_when_the_template_deletes_it(
    project: Project,
) -> None:
    """copier deletes it without a word here."""
    project.replace("app/leaving.py", "leaving 2 of the template", "leaving 2 of the owner")
    project.commit()
    run = project.upgrade()
    assert run.code == 1, run.err
    assert run.verdicts["app/leaving.py"] == "conflict"
    expected = lines((2, "leaving 2 of the owner"), name="leaving")
    assert project.read("app/leaving.py") == expected
    assert project.unmerged() == {"app/leaving.py": {1, 2}}


def test_a_binary_that_only_the_owner_changed_is_kept(project: Project) -> None:
    """copier overwrites it without a word here."""
    project.write("icon.png", b"\0mine")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.read("icon.png") == b"\0mine"


def test_a_binary_that_both_changed_is_a_conflict_with_the_owners_in_place(
    project: Project,
) -> None:
    """A picture with markers would be nobody's; the template's one is in the index."""
    project.write("logo.png", b"\0mine")
    project.commit()
    run = project.upgrade()
    assert run.code == 1, run.err
    assert project.read("logo.png") == b"\0mine"
    assert project.unmerged() == {"logo.png": {1, 2, 3}}
    theirs = project.git("show", ":3:logo.png").encode(errors="surrogateescape")
    assert len(theirs) > len(LOGO)


def test_an_ignored_env_file_is_never_touched(project: Project) -> None:
    """copier overwrites it here, and git cannot bring it back."""
    before = project.read(".env")
    assert b"change-me" not in before
    project.write(".env", before + b"MINE=1\n")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.read(".env") == before + b"MINE=1\n"
    assert b"APP_PORT=2" in project.read(".env.example")


def test_an_ignored_file_where_the_template_adds_one_is_kept_and_listed(project: Project) -> None:
    """What an owner keeps out of git is the owner's alone."""
    project.write(".gitignore", project.read(".gitignore") + b"/notes.txt\n")
    project.commit()
    project.write("notes.txt", b"my notes\n")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert run.verdicts["notes.txt"] == "kept"
    assert project.read("notes.txt") == b"my notes\n"
    assert project.git("ls-files", "notes.txt") == ""


def test_a_file_ignored_only_by_the_owners_global_rules_is_kept_too(project: Project) -> None:
    """Rules of a machine decide over a file that is there, not over one that is to come."""
    ignore = project.root.parent / "global-ignore"
    ignore.write_text("notes.txt\nadded.py\n")
    project.git("config", "core.excludesFile", str(ignore))
    project.write("notes.txt", b"my notes\n")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert run.verdicts["notes.txt"] == "kept"
    assert project.read("notes.txt") == b"my notes\n"
    assert run.verdicts["app/added.py"] == "added"


def test_an_untracked_file_does_not_stop_an_upgrade(project: Project) -> None:
    """Nothing of it is in the way."""
    project.write("scribble.txt", b"mine\n")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.read("scribble.txt") == b"mine\n"


def test_an_edit_elsewhere_that_is_not_committed_stays(project: Project) -> None:
    """A clean work tree is not asked for."""
    project.replace("app/still.py", "still 1 of the template", "still 1 of the owner")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert b"still 1 of the owner" in project.read("app/still.py")
    assert project.git("diff", "--name-only").split() == ["app/still.py"]


def test_what_is_in_the_way_is_named_before_anything_is_touched(project: Project) -> None:
    """All of it at once, with the reason: an edit, a deletion, an untracked file."""
    project.replace("app/lines.py", "line 1 of the template", "line 1 of the owner")
    project.path("app/other.py").unlink()
    project.write("app/added.py", b"mine\n")
    before, index = project.snapshot(), project.read(".git/index")
    run = project.upgrade()
    run.refused(
        "`app/lines.py` has an edit that is not committed",
        "`app/other.py` is deleted, and not committed",
        "`app/added.py` is not tracked, and the template adds app/added.py",
    )
    assert project.snapshot() == before
    assert project.read(".git/index") == index
    assert not project.path(".git/scaffolder").exists()


def test_an_exec_bit_that_the_owner_changed_is_kept(project: Project) -> None:
    """Removed from one file that the template changes, added to another."""
    project.path("run.sh").chmod(0o644)
    project.path("app/lines.py").chmod(0o755)
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.path("run.sh").stat().st_mode & 0o777 == 0o644
    assert project.path("app/lines.py").stat().st_mode & 0o777 == 0o755
    assert project.read("run.sh").endswith(b"echo four\n")
    assert project.git("status", "--porcelain", "run.sh").startswith("M  ")


def test_a_checkout_with_crlf_endings_keeps_them(project: Project) -> None:
    """core.autocrlf=true, the form of a checkout on Windows, is no edit."""
    project.git("config", "core.autocrlf", "true")
    for name in project.git("ls-files", "-z").split("\0")[:-1]:
        project.path(name).unlink()
    project.git("checkout", "--", ".")
    assert project.read("app/lines.py").count(b"\r\n") == 20
    project.replace("app/lines.py", "line 2 of the template", "line 2 of the owner")
    project.git("commit", "-q", "-a", "-m", "edit")
    run = project.upgrade()
    assert run.code == 0, run.err
    expected = lines((2, "line 2 of the owner"), (10, "line 10 of the second template"))
    assert project.read("app/lines.py") == expected.replace(b"\n", b"\r\n")
    assert project.git("diff", "--name-only") == ""


def test_a_file_that_the_owner_converted_to_crlf_is_merged_and_stays_so(project: Project) -> None:
    """Endings are merged apart from lines: no conflict, and no mixture."""
    text = project.read("app/lines.py").replace(b"line 2 of the template", b"line 2 of the owner")
    project.write("app/lines.py", text.replace(b"\n", b"\r\n"))
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    expected = lines((2, "line 2 of the owner"), (10, "line 10 of the second template"))
    assert project.read("app/lines.py") == expected.replace(b"\n", b"\r\n")


def test_a_file_with_mixed_endings_keeps_every_byte(project: Project) -> None:
    """What is neither LF nor CRLF is merged as it is."""
    text = project.read("app/lines.py").replace(b"line 2 of the template\n", b"line 2 mine\r\n")
    project.write("app/lines.py", text)
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert b"line 2 mine\r\n" in project.read("app/lines.py")
    assert project.read("app/lines.py").count(b"\r") == 1


def test_a_file_whose_style_the_owner_changed_has_small_conflicts(
    tmp_path: Path,
) -> None:
    """Re-quoting every other line gives one conflict for each line that the template changed."""

    def styled(*changed: int) -> bytes:
        rows = []
        for number in range(1, 21):
            value = f"new {number}" if number in changed else f"{number}"
            rows += [f"row_{number} = '{value}'", f"# about {number}", f"check(row_{number})", ""]
        return "\n".join(rows).encode()

    first = FIRST | {"template/app/style.py": styled()}
    second = SECOND | {"template/app/style.py": styled(3, 10, 17)}
    tool = make_tool(tmp_path / "tool", {"1.0.0": first, "2.0.0": second})
    project = _fresh(tool, tmp_path)
    project.write("app/style.py", styled().replace(b"'", b'"'))
    project.commit()
    run = project.upgrade()
    assert run.code == 1
    assert "app/style.py  (3 places)" in run.out
    assert project.read("app/style.py").count(b"<<<<<<<") == 3


def test_a_project_in_a_sub_folder_is_upgraded_and_nothing_else(
    tool: Tool, pristine: Path, tmp_path: Path
) -> None:
    """In a repository of many projects only the one is touched."""
    top = Project(tmp_path / "mono", tool)
    for name in ("services/shop", "services/twin"):
        shutil.copytree(pristine, top.path(name), ignore=shutil.ignore_patterns(".git"))
    top.write("notes.txt", b"mine\n")
    top.git("init", "-q")
    top.commit()
    twin = {k: v for k, v in top.snapshot().items() if not k.startswith("services/shop/")}
    run = top.upgrade(cwd=top.path("services/shop/app"))
    assert run.code == 0, run.err
    assert top.read("services/shop/app/added.py") == lines(name="added")
    assert run.verdicts["notes.txt"] == "added"
    after = {k: v for k, v in top.snapshot().items() if not k.startswith("services/shop/")}
    assert after == twin
    top.git("reset", "-q", "--merge")
    assert not top.path("services/shop/app/added.py").exists()


def test_a_linked_work_tree_is_upgraded_and_the_main_one_is_not(
    project: Project, tmp_path: Path
) -> None:
    """Index and journal belong to the work tree, not to the repository."""
    before = project.snapshot()
    project.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = Project(tmp_path / "linked", project.tool)
    run = linked.upgrade()
    assert run.code == 0, run.err
    assert linked.read("app/added.py") == lines(name="added")
    assert project.snapshot() == before
    assert project.git("status", "--porcelain") == ""


def test_a_link_put_over_a_template_file_stays_without_a_copy_beside_it(
    project: Project,
) -> None:
    """git would leave `name~side` beside it; the template's version is in the index instead."""
    project.path("app/lines.py").unlink()
    project.path("app/lines.py").symlink_to("still.py")
    project.commit()
    run = project.upgrade()
    assert run.code == 1, run.err
    assert project.path("app/lines.py").readlink() == Path("still.py")
    assert [name for name in project.snapshot() if "~" in name] == []
    assert project.unmerged() == {"app/lines.py": {1, 2, 3}}


def test_a_new_question_takes_its_default_and_says_so(project: Project) -> None:
    """Without a terminal nobody is asked."""
    run = project.upgrade()
    assert run.code == 0, run.err
    assert "new question style is `plain`" in run.err
    assert b"style: plain\n" in project.read(".copier-answers.yml")


def test_a_project_without_its_answers_file_is_refused(project: Project) -> None:
    """The file says what to merge with; git can bring it back."""
    project.path(".copier-answers.yml").unlink()
    run = project.upgrade()
    run.refused(str(project.root), ".copier-answers.yml")
    assert "git checkout HEAD -- .copier-answers.yml" in run.err


def test_a_folder_without_a_repository_is_refused(project: Project) -> None:
    """There is nothing to merge with."""
    shutil.rmtree(project.path(".git"))
    run = project.upgrade()
    run.refused(str(project.root), "not in a git work tree")


def test_a_repository_without_a_commit_is_refused(project: Project) -> None:
    """The same, one step later."""
    shutil.rmtree(project.path(".git"))
    project.git("init", "-q")
    run = project.upgrade()
    run.refused("has no commit yet")
    assert "git commit" in run.err


def test_a_project_that_no_commit_holds_is_refused(
    tool: Tool, pristine: Path, tmp_path: Path
) -> None:
    """A repository around it does not help."""
    top = Project(tmp_path / "mono", tool)
    top.write("readme.txt", b"mine\n")
    top.git("init", "-q")
    top.commit()
    shutil.copytree(pristine, top.path("shop"), ignore=shutil.ignore_patterns(".git"))
    run = top.upgrade(cwd=top.path("shop"))
    run.refused("has no commit with `shop/.copier-answers.yml`")


def test_a_name_with_a_line_break_is_an_ordinary_name(tmp_path: Path) -> None:
    """Paths go to git as bytes between NULs, and to a person spelled out."""
    odd = 'template/odd\n"name"\t.txt'
    first, second = FIRST | {odd: lines()}, SECOND | {odd: lines((5, "line 5 is new"))}
    tool = make_tool(tmp_path / "tool", {"1.0.0": first, "2.0.0": second})
    project = _fresh(tool, tmp_path)
    name = odd.removeprefix("template/")
    project.replace(name, "line 15 of the template", "line 15 of the owner")
    project.commit()
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.read(name) == lines((5, "line 5 is new"), (15, "line 15 of the owner"))
    assert 'merged        odd\\n"name"\\t.txt' in run.out


def test_a_folder_in_place_of_a_template_file_keeps_what_is_in_it(tmp_path: Path) -> None:
    """And a file in place of a template folder stays too: each ends up under some name."""
    first = FIRST | {"template/one": b"1\n"}
    second = first | {
        "template/two": b"two of the template\n",
        "template/three/inside": b"inside\n",
        "copier.yml": COPIER_YML,
    }
    tool = make_tool(tmp_path / "tool", {"1.0.0": first, "2.0.0": second})
    project = _fresh(tool, tmp_path)
    project.write("two/mine", b"mine in a folder\n")
    project.write("three", b"mine in a file\n")
    project.commit()
    run = project.upgrade()
    assert run.code == 1, run.err
    assert project.read("two/mine") == b"mine in a folder\n"
    assert project.read("two~template-2.0.0") == b"two of the template\n"
    assert project.read("three~yours") == b"mine in a file\n"
    assert "three~yours  (the template has a folder of that name; yours is here)" in run.out
    project.git("reset", "-q", "--merge")
    assert project.read("three") == b"mine in a file\n"


def _fresh(tool: Tool, folder: Path) -> Project:
    made = tool.run(
        "new", "odd", "--yes", "--no-install", "--template-version", "1.0.0", cwd=folder
    )
    assert made.code == 0, made.err
    return Project(folder / "odd", tool)


def test_a_submodule_of_the_owner_stays(project: Project) -> None:
    """Its commit is not in this repository, and nobody asks for it."""
    project.path("vendor/lib").mkdir(parents=True)
    commit = project.git("rev-parse", "HEAD").strip()
    link = f"160000,{commit[::-1]},vendor/lib"
    project.git("update-index", "--add", "--cacheinfo", link)
    project.git("commit", "-q", "-m", "submodule")
    run = project.upgrade()
    assert run.code == 0, run.err
    assert project.git("ls-files", "--stage", "vendor").startswith("160000 ")
    project.git("reset", "-q", "--merge")
    assert project.git("status", "--porcelain") == ""
