"""Rewrites the stored file list of generated projects: `python -m tools.file_list`.

One line per file, sorted; a file that belongs to a feature has the feature's name after it. The
tests of the answer sets compare every generated project with this list, so that a file that
appears or vanishes is seen in the review.
"""

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from scaffolder import generate
from scaffolder.answers import Answers
from scaffolder.packing import unpack
from scaffolder.project import list_files
from scaffolder.questions import Questions, read_questions
from scaffolder.source import Snapshot, open_snapshot

STORED = Path(__file__).resolve().parents[1] / "tests" / "scaffolder" / "generated-files.txt"


def render(snapshot: Snapshot, questions: Questions, answers: Answers, folder: Path) -> Path:
    """Render one set of answers below `folder` and return the project."""
    template, project = folder / "template", folder / answers.project_name
    if not template.exists():
        unpack(snapshot.files, template)
    generate.render(template, project, answers.as_data(questions))
    return project


def by_feature() -> dict[str, str]:
    """Return every file of the full project with its feature, or with an empty text."""
    snapshot = open_snapshot()
    questions = read_questions(snapshot.text("copier.yml"))
    features = frozenset(question.name for question in questions.features)

    def files(name: str, chosen: Iterable[str]) -> set[str]:
        answers = Answers(name, "sqlite", frozenset(chosen))
        return set(list_files(render(snapshot, questions, answers, Path(folder))))

    with tempfile.TemporaryDirectory() as folder:
        found = dict.fromkeys(files("full", features), "")
        for feature in features:
            for file in found.keys() - files(f"no-{feature}", features - {feature}):
                found[file] = feature
    return found


def read_stored() -> dict[str, str]:
    """Return the stored list in the form of `by_feature`."""
    lines = STORED.read_text("utf-8").splitlines()
    return {path: feature for path, _, feature in (line.partition("  ") for line in lines)}


def main() -> int:
    """Write the list."""
    files = by_feature()
    lines = (f"{path}  {files[path]}".rstrip() for path in sorted(files))
    STORED.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    sys.stderr.write(f"{len(files)} files in {STORED.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
