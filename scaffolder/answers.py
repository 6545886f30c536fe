"""What was answered, and how it was: flags over data file over preset over defaults.

`gather` is pure but for the person it may ask. Every answer has a flag, and `command_line`
gives them back: the command that makes the same project without a question.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from scaffolder.errors import BadInput
from scaffolder.progress import Asker
from scaffolder.questions import Question, Questions


class Preset(StrEnum):
    """Where features start before single ones are switched."""

    FULL = "full"
    MINIMAL = "minimal"


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line says; None and empty mean nothing was said."""

    database: str | None = None
    preset: str | None = None
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answers:
    """A complete set of answers."""

    project_name: str
    database: str
    features: frozenset[str]

    def as_data(self, questions: Questions) -> dict[str, str | bool]:
        """Return the answers in the form that copier takes."""
        data: dict[str, str | bool] = {
            question.name: question.name in self.features for question in questions.features
        }
        return {"project_name": self.project_name, "database": self.database, **data}


@dataclass(frozen=True, slots=True)
class Given:
    """Flags and data file after checking: what is settled and what may still be asked."""

    database: str | None
    preset: Preset | None
    features: Mapping[str, bool]

    def complete(self, questions: Questions) -> bool:
        """Tell whether nothing is left to ask."""
        settled = self.preset is not None or len(self.features) == len(questions.features)
        return settled and self.database is not None


def check(flags: Flags, data: Mapping[str, object], questions: Questions) -> Given:
    """Return what flags and data file settle; raise BadInput naming the first bad value."""
    names = tuple(question.name for question in questions.features)
    for name in (*flags.enable, *flags.disable):
        if name not in names:
            raise BadInput(
                f"there is no feature `{name}`; features are {_listed(names)}",
                hint=_nearest(name, names, "leave it off, or name one of the features"),
            )
    for name in flags.enable:
        if name in flags.disable:
            raise BadInput(
                f"feature `{name}` is both switched on and off, and a feature is one or the other",
                hint=f"keep either --with {name} or --without {name}",
            )
    features = {name: _boolean(name, data[name]) for name in names if name in data}
    features |= dict.fromkeys(flags.enable, True) | dict.fromkeys(flags.disable, False)
    database = flags.database if flags.database is not None else data.get("database")
    return Given(
        database=None if database is None else _choice(database, questions["database"]),
        preset=None if flags.preset is None else _preset(flags.preset),
        features=features,
    )


def check_data(data: object, questions: Questions, origin: str) -> dict[str, object]:
    """Return the answers of a data file; keys that start with `_` belong to copier."""
    if not isinstance(data, dict):
        raise BadInput(
            f"data file `{origin}` is not a list of `name: answer` lines",
            hint="write for example: database: postgresql",
        )
    answers = {str(key): value for key, value in data.items() if not str(key).startswith("_")}
    for key in answers:
        if key not in questions.names:
            raise BadInput(
                f"data file `{origin}` answers `{key}`, which is no question; "
                f"questions are {_listed(questions.names)}",
                hint=_nearest(key, questions.names, "remove the line"),
            )
    return answers


def gather(name: str, given: Given, questions: Questions, asker: Asker | None) -> Answers:
    """Return complete answers; without an asker every open question takes its default."""
    database = given.database
    if database is None:
        question = questions["database"]
        default = str(question.default)
        database = asker.ask(question, default) if asker else default
    features = dict(given.features)
    for question in questions.features:
        if question.name not in features:
            features[question.name] = _feature(question, given.preset, asker)
    return Answers(name, database, frozenset(name for name, on in features.items() if on))


def _feature(question: Question, preset: Preset | None, asker: Asker | None) -> bool:
    match preset:
        case Preset.FULL:
            return True
        case Preset.MINIMAL:
            return False
        case None:
            default = question.default is True
            return asker.confirm(question, default=default) if asker else default
        case _ as unreachable:
            assert_never(unreachable)


def command_line(answers: Answers, questions: Questions) -> list[str]:
    """Return the flags that give these answers without a question, the shorter way round."""
    names = [question.name for question in questions.features]
    on = [name for name in names if name in answers.features]
    off = [name for name in names if name not in answers.features]
    flags = ["--database", answers.database, "--preset"]
    if len(off) <= len(on):
        flags += [Preset.FULL, *(part for name in off for part in ("--without", name))]
    else:
        flags += [Preset.MINIMAL, *(part for name in on for part in ("--with", name))]
    return [*map(str, flags), "--yes"]


def _choice(value: object, question: Question) -> str:
    if value not in question.choices:
        raise BadInput(
            f"{question.name} `{value}` is unknown; it is {_listed(question.choices)}",
            hint=_nearest(str(value), question.choices, f"--{question.name} {question.choices[0]}"),
        )
    return str(value)


def _preset(value: str) -> Preset:
    if value not in tuple(Preset):
        raise BadInput(
            f"preset `{value}` is unknown; it is {_listed(tuple(Preset))}",
            hint=_nearest(value, tuple(Preset), f"--preset {Preset.FULL}"),
        )
    return Preset(value)


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadInput(
            f"feature `{name}` is `{value}` in the data file, and a feature is true or false",
            hint=f"write `{name}: true` or `{name}: false`",
        )
    return value


def _listed(values: tuple[str, ...]) -> str:
    return ", ".join(values)


def _nearest(value: str, known: tuple[str, ...], otherwise: str) -> str:
    matches = difflib.get_close_matches(value.lower(), known, n=1)
    return f"did you mean `{matches[0]}`?" if matches else otherwise
