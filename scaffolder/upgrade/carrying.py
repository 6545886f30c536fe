"""The answers of a project, carried from one template version to another.

Rules: a stored answer that the newer template still accepts stays; one it no longer accepts, and
one to a new question, takes the default, or is asked where there is a person; an answer to a
question that is gone is dropped. Each of these is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scaffolder import answers
from scaffolder.answers import Flags
from scaffolder.errors import BadInput
from scaffolder.progress import Asker
from scaffolder.project import ANSWERS_FILE
from scaffolder.questions import Question, Questions, load_yaml
from scaffolder.upgrade.registry import Answer, Registry, Stored
from scaffolder.upgrade.versions import Step


@dataclass(frozen=True, slots=True)
class Origin:
    """What the answers file says."""

    version: str
    source: str
    answers: Stored


@dataclass(frozen=True, slots=True)
class Carried:
    """Answers for the newer template, and what happened to them in words."""

    data: dict[str, str | bool]
    notes: tuple[str, ...]


def read_origin(data: bytes) -> Origin:
    """Return what an answers file says; raise BadInput when it says nothing."""
    text = data.decode(errors="replace")
    try:
        loaded = load_yaml(text)
    except ValueError as error:
        raise BadInput(
            f"`{ANSWERS_FILE}` is not readable: {error}",
            hint=f"resolve its conflicts, or take it from a commit: git log -- {ANSWERS_FILE}",
        ) from None
    if not isinstance(loaded, dict) or not isinstance(loaded.get("_commit"), str):
        raise BadInput(
            f"`{ANSWERS_FILE}` has no `_commit`, so the template version is not known",
            hint=f"take it from a commit: git log -- {ANSWERS_FILE}",
        )
    stored = {key: value for key, value in loaded.items() if not str(key).startswith("_")}
    return Origin(loaded["_commit"], str(loaded.get("_src_path", "")), stored)


def as_stored(stored: Stored, questions: Questions) -> dict[str, str | bool]:
    """Return the answers for the version they were given to; raise BadInput for a bad one."""
    data: dict[str, str | bool] = {}
    for question in questions.items:
        if question.name in stored:
            value = _accepted(question, stored[question.name])
            if value is None:
                raise BadInput(
                    f"`{ANSWERS_FILE}` answers {question.name} with "
                    f"`{stored[question.name]}`, which is none of its answers",
                    hint=f"git checkout HEAD~ -- {ANSWERS_FILE}, or mend the line",
                )
            data[question.name] = value
    return data


def carry(
    stored: Stored,
    questions: Questions,
    step: Step,
    flags: Flags,
    asker: Asker | None,
    registry: Registry,
) -> Carried:
    """Return the answers for the newer template."""
    notes = []
    for migration in registry.answers_for(step):
        stored = migration.apply(stored)
        notes.append(f"answers: {migration.title}")
    switched = answers.check(flags, {}, questions).features
    data: dict[str, str | bool] = {}
    for question in questions.items:
        name = question.name
        value = switched.get(name, _accepted(question, stored.get(name)))
        data[name] = _open(question, asker) if value is None else value
        if value is None:
            notes.append(_opened(question, stored.get(name), data))
    dropped = [name for name in stored if name not in questions.names]
    notes += [f"answers: `{name}` is no longer asked for" for name in dropped]
    return Carried(_without_computed(data, questions), tuple(notes))


def _accepted(question: Question, value: Answer) -> str | bool | None:
    if question.is_feature:
        return value if isinstance(value, bool) else None
    if value is None or isinstance(value, bool):
        return None
    text = str(value)
    return text if not question.choices or text in question.choices else None


def _open(question: Question, asker: Asker | None) -> str | bool:
    if question.is_feature:
        default = question.default is True
        return asker.confirm(question, default=default) if asker else default
    return asker.ask(question, str(question.default)) if asker else str(question.default)


def _opened(question: Question, old: Answer, data: Mapping[str, str | bool]) -> str:
    value = data[question.name]
    shown = str(value).lower() if isinstance(value, bool) else value
    change = ""
    if question.is_feature:
        change = f"; change it with --{'without' if value else 'with'} {question.name}"
    if old is not None:
        return f"answers: {question.name} `{old}` is no longer an answer, now `{shown}`{change}"
    return f"answers: new question {question.name} is `{shown}`{change}"


def _without_computed(
    data: Mapping[str, str | bool], questions: Questions
) -> dict[str, str | bool]:
    # A default that is a Jinja expression is for copier to compute.
    return {
        name: value
        for name, value in data.items()
        if not (value == questions[name].default and isinstance(value, str) and "{{" in value)
    }
