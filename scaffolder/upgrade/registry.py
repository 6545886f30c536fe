"""What a template release asks of existing projects beyond the merge; plain Python, by version.

An `AnswersMigration` turns the stored answers into what the newer template asks for: a renamed
question is one line here. A `ProjectHook` edits files after the merge, where a merge alone
would leave the owner's own code behind; it sees the merged files in memory, so that a dry run
shows its work too. Both run for every release after the project's own, up to the target.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from packaging.version import Version

from scaffolder.upgrade.versions import Step

Answer = str | int | float | bool | None
Stored = Mapping[str, Answer]


class Files(Protocol):
    """The merged project, in memory."""

    def paths(self) -> tuple[str, ...]:
        """Return the path of every regular file, with slashes."""

    def read(self, path: str) -> bytes | None:
        """Return what a file holds, or None when there is none."""

    def write(self, path: str, data: bytes) -> None:
        """Change a file, or add it."""


@dataclass(frozen=True, slots=True)
class AnswersMigration:
    """Answers of the release before -> answers of `version`."""

    version: str
    title: str
    apply: Callable[[Stored], Stored]


@dataclass(frozen=True, slots=True)
class ProjectHook:
    """Edits that bring an owner's code to `version`."""

    version: str
    title: str
    apply: Callable[[Files], None]


@dataclass(frozen=True, slots=True)
class Registry:
    """All of them, in the order of their versions."""

    answers: tuple[AnswersMigration, ...] = ()
    hooks: tuple[ProjectHook, ...] = ()

    def answers_for(self, step: Step) -> tuple[AnswersMigration, ...]:
        """Return the migrations between two versions."""
        return tuple(each for each in self.answers if _between(each.version, step))

    def hooks_for(self, step: Step) -> tuple[ProjectHook, ...]:
        """Return the hooks between two versions."""
        return tuple(each for each in self.hooks if _between(each.version, step))


def renamed(version: str, old: str, new: str) -> AnswersMigration:
    """Return the migration that keeps the answer of a renamed question."""

    def apply(stored: Stored) -> Stored:
        kept = {key: value for key, value in stored.items() if key != old}
        return {new: stored[old], **kept} if old in stored else kept

    return AnswersMigration(version, f"`{old}` is now called `{new}`", apply)


def _between(version: str, step: Step) -> bool:
    return Version(step.old) < Version(version) <= _release(step.new)


def _release(version: str) -> Version:
    # What is meant for 0.2.0 also runs on the way to 0.2.0.dev0, its development version.
    return Version(Version(version).base_version)


REGISTRY = Registry(answers=(), hooks=())
