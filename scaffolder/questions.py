"""The questions of a template, read from its `copier.yml`: the one list of them.

A question of type bool is a feature; `database` is a choice; `project_name` comes from the
command line. A test compares this list with the flags of `scaffolder new`.
"""

from dataclasses import dataclass

from scaffolder.errors import CannotProceed


@dataclass(frozen=True, slots=True)
class Question:
    """One question; `choices` is empty when any text will do."""

    name: str
    help: str
    default: str | bool
    choices: tuple[str, ...]

    @property
    def is_feature(self) -> bool:
        """Tell whether the answer is yes or no."""
        return isinstance(self.default, bool)


@dataclass(frozen=True, slots=True)
class Questions:
    """All questions of one template version, in the order of `copier.yml`."""

    items: tuple[Question, ...]

    def __getitem__(self, name: str) -> Question:
        return next(question for question in self.items if question.name == name)

    @property
    def features(self) -> tuple[Question, ...]:
        """Return the questions that switch a feature."""
        return tuple(question for question in self.items if question.is_feature)

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name that an answers file may hold."""
        return tuple(question.name for question in self.items)


def read_questions(copier_yml: str | None) -> Questions:
    """Return the questions that the text of a `copier.yml` asks."""
    loaded = load_yaml(copier_yml or "")
    if not isinstance(loaded, dict):
        raise CannotProceed(
            "the template has no readable `copier.yml`",
            hint="build or install the tool again; its template archive is damaged",
        )
    return Questions(
        tuple(
            Question(
                name=name,
                help=str(spec["help"]),
                default=spec["default"],
                choices=tuple(spec.get("choices", ())),
            )
            for name, spec in loaded.items()
            if not name.startswith("_")
        )
    )


def load_yaml(text: str) -> object:
    """Return what a YAML (or JSON) text means; raise ValueError when it is none."""
    import yaml  # 20 ms that `--help` does not need

    try:
        loaded: object = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    return loaded
