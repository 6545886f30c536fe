"""An upgrade killed at any instant: no byte of the owner's is gone, and both ways out work."""

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.upgrade.conftest import Project, Tool, make_tool
from tests.upgrade.templates import FIRST, SECOND

KILLS = int(os.environ.get("UPGRADE_KILLS", "200"))
LANES = 2
SMALL = (
    "copier.yml",
    "template/{{_copier_conf.answers_file}}.jinja",
    "template/.env.example",
    "template/.gitignore",
    "template/app/lines.py",
    "template/app/still.py",
    "template/app/old_name.py",
    "template/app/new_name.py",
    "template/app/leaving.py",
    "template/app/added.py",
    "template/run.sh",
)
State = tuple[dict[str, tuple[str, int, bytes]], str]


def state(project: Project) -> State:
    """Return all that an owner can see: every file, and what the index holds."""
    return project.snapshot(), project.git("ls-files", "--stage", "-z")


@dataclass(frozen=True, slots=True)
class Scene:
    """An edited project, and what an upgrade that nobody disturbs makes of it."""

    origin: Project
    before: State
    after: State
    seconds: float

    def copy(self, folder: Path, tool: Tool | None = None) -> Project:
        """Return a fresh copy in `folder`."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.origin.root, folder, symlinks=True)
        return Project(folder, tool or self.origin.tool)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A project with an edit of every kind, among them a conflict and edits without a commit."""
    box = tmp_path_factory.mktemp("kill")
    first = {name: FIRST[name] for name in SMALL if name in FIRST}
    second = {name: SECOND[name] for name in SMALL if name in SECOND}
    tool = make_tool(box / "tool", {"1.0.0": first, "2.0.0": second})
    made = tool.run("new", "shop", "--yes", "--no-install", "--template-version", "1.0.0", cwd=box)
    assert made.code == 0, made.err
    project = Project(box / "shop", tool)
    project.replace("app/lines.py", "line 10 of the template", "line 10 of the owner")
    project.replace("app/old_name.py", "moved 2 of the template", "moved 2 of the owner")
    project.write("app/mine.py", b"mine\n")
    project.commit()
    project.replace("app/still.py", "still 1 of the template", "still 1 of the owner")
    project.write("scribble.txt", b"not tracked\n")
    project.write(".env", b"SECRET=mine\n")
    project.git("gc", "-q")
    scene = Scene(project, state(project), ({}, ""), 0.0)
    whole = scene.copy(box / "whole")
    started = time.monotonic()
    assert whole.upgrade().code == 1
    return Scene(project, scene.before, state(whole), time.monotonic() - started)


@pytest.fixture(scope="module")
def half_done(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The same project, its upgrade killed in the middle of the work tree."""
    folder = tmp_path_factory.mktemp("half") / "shop"
    for step in range(20, 200):
        project = scene.copy(folder)
        project.tool.start("upgrade", cwd=project.root, die_at=step).wait()
        if project.snapshot().get("app/lines.py") == scene.after[0]["app/lines.py"]:
            return replace(scene, origin=project)
    raise AssertionError("no step leaves a half-done upgrade")


def check_nothing_lost(project: Project, scene: Scene) -> None:
    """Assert that what no commit holds is in its place, and that every other file is whole.

    A file is in its old or its new state, or between them in the folder of the journal.
    """
    now, (old, _), (new, _) = project.snapshot(), scene.before, scene.after
    for name in ("app/still.py", "scribble.txt", ".env", "app/mine.py"):
        assert now[name] == old[name]
    kept = project.path(".git/scaffolder/old")
    for name, value in old.items():
        if now.get(name) not in (value, new.get(name)):
            assert (kept / name).read_bytes() == value[2], name
    for name in now.keys() - old.keys():
        assert now[name] == new[name], name
    if kept.exists():
        project.git("fsck", "--strict", "--no-dangling")


def check_ways_out(project: Project, scene: Scene, *, by_abort: bool) -> None:
    """Assert that finishing gives the whole upgrade, and aborting the state before."""
    journal = project.path(".git/scaffolder/journal.json").exists()
    if by_abort:
        run = project.upgrade("--abort")
        if not journal:
            run.refused("no upgrade was interrupted here")
            assert state(project) in (scene.before, scene.after)
            return
        assert run.code == 0, run.err
        assert state(project) == scene.before
        assert project.git("diff", "--name-only").split() == ["app/still.py"]
    elif journal:
        run = project.upgrade()
        assert run.code == 1, run.err
        assert "an upgrade was interrupted here; it is finished now" in run.err
        assert "conflict      app/lines.py" in run.out
        assert state(project) == scene.after
    else:
        # Nothing touched yet, or all done; the folder without a journal is litter for the next run.
        assert state(project) in (scene.before, scene.after)
        assert not project.path(".git/index.lock").exists()
        return
    for litter in ("index.lock", "scaffolder"):
        assert not project.path(f".git/{litter}").exists()
    if not by_abort:
        project.git("reset", "-q", "--merge")
        assert state(project) == scene.before


def _lane(scene: Scene, folder: Path) -> Project:
    """Return where one thread works, with a process of its own to fork from."""
    home = folder / "home"
    home.mkdir(parents=True)
    return Project(folder / "shop", Tool(scene.origin.tool.folder, home))


def _in_lanes(scene: Scene, folder: Path, work: Callable[[Project, int], int]) -> int:
    """Do the work in two threads, one for each core; return the sum."""
    lanes = [_lane(scene, folder / str(number)) for number in range(LANES)]
    with ThreadPoolExecutor(LANES) as pool:
        return sum(pool.map(work, lanes, range(LANES)))


def test_a_kill_at_a_random_instant_loses_nothing(scene: Scene, tmp_path: Path) -> None:
    """Half of them at any time, half in the moments in which files are written."""

    def work(lane: Project, number: int) -> int:
        chance = random.Random(number)
        interrupted = 0
        for kill in range(KILLS // LANES):
            project = scene.copy(lane.root, lane.tool)
            running = project.tool.start("upgrade", cwd=project.root)
            if kill % 2:
                time.sleep(chance.uniform(0, scene.seconds))
            else:
                _wait_for_journal(project, running.pid)
                time.sleep(chance.uniform(0, scene.seconds / 16))
            _kill(running.pid)
            running.wait()
            interrupted += project.path(".git/scaffolder/journal.json").exists()
            check_nothing_lost(project, scene)
            check_ways_out(project, scene, by_abort=chance.random() < 0.5)
        return interrupted

    interrupted = _in_lanes(scene, tmp_path, work)
    assert interrupted > KILLS / 20, "too few kills hit the moments that matter"


def test_a_kill_before_each_single_step_loses_nothing(scene: Scene, tmp_path: Path) -> None:
    """Every change of a file, one after the other; half are finished, half taken back."""

    def work(lane: Project, number: int) -> int:
        step = number + 1
        while True:
            project = scene.copy(lane.root, lane.tool)
            run = project.tool.start("upgrade", cwd=project.root, die_at=step).wait()
            if run.code != -signal.SIGKILL:
                assert run.code == 1, run.err
                return step
            check_nothing_lost(project, scene)
            check_ways_out(project, scene, by_abort=step % 4 < 2)
            step += LANES

    assert _in_lanes(scene, tmp_path, work) > 20 * LANES


@pytest.mark.parametrize("way", ["finish", "abort"])
def test_the_way_out_may_be_killed_too(
    scene: Scene, half_done: Scene, tmp_path: Path, way: str
) -> None:
    """It starts again from what it finds, killed before each of its own steps."""
    arguments = ("upgrade", "--abort") if way == "abort" else ("upgrade",)
    for step in range(1, 100):
        project = half_done.copy(tmp_path / "shop")
        run = project.tool.start(*arguments, cwd=project.root, die_at=step).wait()
        if run.code != -signal.SIGKILL:
            break
        check_nothing_lost(project, scene)
        check_ways_out(project, scene, by_abort=way == "abort")
    assert step > 3


def test_an_interrupt_leaves_all_or_nothing(scene: Scene, tmp_path: Path) -> None:
    """Ctrl-C is told as what it was: nothing touched, or too late."""
    chance = random.Random(7)
    for _ in range(12):
        project = scene.copy(tmp_path / "shop")
        running = project.tool.start("upgrade", cwd=project.root)
        time.sleep(chance.uniform(0, scene.seconds))
        _kill(running.pid, signal.SIGINT)
        run = running.wait()
        now = state(project)
        if run.code == 2:
            run.refused("interrupted, and nothing of the project was touched")
            assert now == scene.before
        elif run.code == 1:
            assert now == scene.after
        else:
            # Before the command has taken over the signal, or when Python has given it back.
            assert run.code == -signal.SIGINT
            assert now in (scene.before, scene.after)
        assert not project.path(".git/scaffolder").exists()
        assert not project.path(".git/index.lock").exists()


def test_an_edit_made_after_the_kill_is_named_and_stays(
    scene: Scene, half_done: Scene, tmp_path: Path
) -> None:
    """Finishing is refused then; taking back leaves the edited file as it is."""
    project = half_done.copy(tmp_path / "shop")
    project.write("app/lines.py", b"mine since\n")
    project.upgrade().refused("app/lines.py changed")
    run = project.upgrade("--abort")
    assert run.code == 0, run.err
    assert "app/lines.py was changed after the interruption" in run.err
    assert project.read("app/lines.py") == b"mine since\n"
    now, before = project.snapshot(), dict(scene.before[0])
    now.pop("app/lines.py"), before.pop("app/lines.py")
    assert now == before


def test_a_foreign_lock_is_left_alone(half_done: Scene, tmp_path: Path) -> None:
    """Only the lock of the killed upgrade itself is removed."""
    project = half_done.copy(tmp_path / "shop")
    project.path(".git/index.lock").unlink(missing_ok=True)
    project.write(".git/index.lock", b"of another process")
    for arguments in ((), ("--abort",)):
        project.upgrade(*arguments).refused("index.lock", "git is at work here")
    assert project.read(".git/index.lock") == b"of another process"


def test_a_dry_run_does_not_finish_an_interrupted_upgrade(half_done: Scene, tmp_path: Path) -> None:
    """It names the two commands that do."""
    project = half_done.copy(tmp_path / "shop")
    run = project.upgrade("--dry-run")
    run.refused("from 1.0.0 to 2.0.0 was interrupted here")
    assert "scaffolder upgrade --abort" in run.err


@pytest.mark.parametrize(
    "wish", [("--to", "2.0.0"), ("--with", "extra"), ("--without", "extra")], ids=lambda w: w[0]
)
def test_another_wish_is_refused_until_an_interrupted_upgrade_is_finished(
    half_done: Scene, tmp_path: Path, wish: tuple[str, str]
) -> None:
    """It would be dropped without a word."""
    project = half_done.copy(tmp_path / "shop")
    before = state(project)
    run = project.upgrade(*wish)
    run.refused("from 1.0.0 to 2.0.0 was interrupted here")
    assert "scaffolder upgrade --abort, then ask again" in run.err
    assert state(project) == before
    assert project.path(".git/scaffolder/journal.json").exists()
    assert project.upgrade().code == 1


def test_a_diff_in_the_middle_of_an_upgrade_is_refused(half_done: Scene, tmp_path: Path) -> None:
    """As a dry run is."""
    project = half_done.copy(tmp_path / "shop")
    run = project.tool.run("diff", cwd=project.root)
    run.refused("from 1.0.0 to 2.0.0 was interrupted here")
    assert run.err == project.upgrade("--dry-run").err


def test_status_tells_of_an_interrupted_upgrade(half_done: Scene, tmp_path: Path) -> None:
    """With both ways out, and without an end of its own; after either there is nothing to tell."""
    project = half_done.copy(tmp_path / "shop")
    run = project.tool.run("status", cwd=project.path("app"))
    assert run.code == 0, run.err
    for row in project.upgrade("--dry-run").err.splitlines():
        assert row.partition(": ")[2] in run.err

    def interrupted() -> bool:
        run = project.tool.run("status", "--json", cwd=project.root)
        assert run.code == 0, run.err
        return bool(json.loads(run.out)["interrupted"])

    assert interrupted()
    assert project.upgrade("--abort").code == 0
    assert not interrupted()
    shutil.rmtree(project.path(".git"))
    assert not interrupted()


def test_status_tells_of_an_upgrade_interrupted_in_a_linked_work_tree(
    half_done: Scene, tmp_path: Path
) -> None:
    """Each work tree has a journal of its own."""
    project = half_done.copy(tmp_path / "shop")
    project.path(".git/index.lock").unlink(missing_ok=True)
    project.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = Project(tmp_path / "linked", project.tool)
    run = linked.tool.run("status", cwd=linked.root)
    assert "interrupted" not in run.err
    journal = linked.git("rev-parse", "--absolute-git-dir").strip()
    shutil.copytree(project.path(".git/scaffolder"), Path(journal) / "scaffolder")
    run = linked.tool.run("status", cwd=linked.root)
    assert "from 1.0.0 to 2.0.0 was interrupted here" in run.err


def _wait_for_journal(project: Project, pid: int) -> None:
    deadline = time.monotonic() + 20
    while not project.path(".git/scaffolder/journal.json").exists() and time.monotonic() < deadline:
        time.sleep(0.0005)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return


def _kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
