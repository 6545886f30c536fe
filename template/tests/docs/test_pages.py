"""What the pages say exists, exists: links, files, tests, commands, reasons, packages."""

import re
from pathlib import Path

import pytest
import yaml

import app
from app.outbox.message import ParkedReason, Status
from tests.docs.cli_reference import tree
from tests.docs.pages import IN_PLACE, NAME, ROOT, exists, pages, read

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
FILE = re.compile(r"`((?:app|tests|docs)/[\w/.-]+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _anchors(page: str) -> set[str]:
    headings = (re.sub(r"[^\w\- ]", "", h.lower()) for h in HEADING.findall(read(page)))
    return {heading.strip().replace(" ", "-") for heading in headings}


def _without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_somewhere(page: str) -> None:
    """A link inside the project names a file that is there, and a heading that is there."""
    broken = []
    for link in LINK.findall(_without_code(read(page))):
        if re.match(r"https?:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (
            str((ROOT / page).parent.joinpath(file).resolve().relative_to(ROOT)) if file else page
        )
        if not exists(target) or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", pages())
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    """`app/...`, `tests/...` and `docs/...` in backquotes are paths of this project."""
    named = FILE.findall(_without_code(read(page)))
    assert [name for name in named if "NAME" not in name and not exists(name)] == []


@pytest.mark.parametrize("page", pages())
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    """A promise that names a test which was renamed or removed is held by nothing."""
    named = TEST.findall(read(page))
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists()
        or not re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_every_guarantee_names_its_test() -> None:
    """A row of the table without a test would be a wish."""
    rows = [row for row in read("docs/guarantees.md").splitlines() if re.match(r"\| G\d+ \|", row)]
    assert len(rows) >= 9
    assert [row for row in rows if not TEST.search(row)] == []


def _commands(page: str) -> list[str]:
    """What follows the program's name; in backquotes the name may be missing."""
    text = read(page)
    code = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line for block in code for line in block.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", _without_code(text))
    called = re.compile(rf"(?:^|[\s(])(?:\.venv/bin/)?{re.escape(NAME)} ([a-z][^#)]*)")
    calls = [found[1].strip() for line in [*lines, *inline] if (found := called.search(line))]
    groups = {name.split()[0] for name in tree()}
    return calls + [text for text in inline if " " in text and text.split()[0] in groups]


def _problem(call: str) -> str | None:
    words = call.split()
    name = next((n for n in (" ".join(words[:2]), words[0]) if n in tree()), None)
    if name is None:
        return f"{call}: there is no such command"
    known = {option for parameter in tree()[name].params for option in parameter.opts}
    unknown = [w for w in words if w.startswith("--") and w.partition("=")[0] not in known]
    return f"{call}: unknown {unknown}" if unknown else None


@pytest.mark.parametrize("page", pages())
def test_every_command_that_a_page_shows_exists_with_its_options(page: str) -> None:
    """What a reader copies must not end in `no such command`."""
    assert [problem for call in _commands(page) if (problem := _problem(call))] == []


def test_the_pages_show_commands() -> None:
    """The test above has something to look at."""
    assert {call.split()[0] for page in pages() for call in _commands(page)} >= {"db", "messages"}


@pytest.mark.parametrize("page", pages())
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    """`make x` in a page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    text = read(page)
    named = re.findall(r"`make ([a-z]+)`", text) + re.findall(r"^\$ make ([a-z]+)", text, re.M)
    assert set(named) <= targets


def test_the_runbook_explains_every_reason_for_parking() -> None:
    """Whoever finds a message parked finds the reason in the table, with what to do."""
    explained = re.findall(r"^\| `(\w+)` \|", read("docs/operations.md"), re.MULTILINE)
    assert {reason.value for reason in ParkedReason} <= set(explained)


def test_the_glossary_has_every_status() -> None:
    """The five words that people see on a message."""
    glossary = read("docs/glossary.md")
    assert [status.value for status in Status if status.value not in glossary] == []


def test_the_architecture_page_shows_the_packages_that_there_are() -> None:
    """None is made up, and none of ours is missing; a package of yours needs no row."""
    shown = set(re.findall(r"^\| `app/(\w+)` \|", read("docs/architecture.md"), re.MULTILINE))
    folder = Path(app.__file__).parent
    there = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert shown - there == set()
    assert not IN_PLACE or there - shown == set()


@pytest.mark.skipif(not exists(".github"), reason="this project is without a workflow file")
def test_the_workflow_runs_what_a_person_runs() -> None:
    """CI has no steps of its own: each is a target of the Makefile, on every version we support."""
    workflow = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]["check"]
    runs = [step["run"] for step in workflow["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    assert [run.split()[:2] for run in runs] == [["make", t] for t in ("install", "check", "test")]
    assert {run.split()[1] for run in runs} <= targets
    oldest = re.search(r'requires-python = ">=([\d.]+)"', read("pyproject.toml"))
    assert oldest is not None
    assert workflow["strategy"]["matrix"]["python"][0] == oldest[1]
