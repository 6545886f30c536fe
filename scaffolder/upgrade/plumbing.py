"""git as a library: bytes in, bytes out, and an environment that says nothing by accident."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scaffolder.errors import CannotProceed

# Configuration of this user; the project's own git needs it, a scratch repository must not see it.
_ISOLATED = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}
_KEPT = frozenset(
    {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}
)


class GitFailed(CannotProceed):
    """A git command ended with an exit code that its caller does not know."""

    def __init__(self, command: str, code: int, output: str) -> None:
        said = " ".join(output.split()) or "it said nothing"
        super().__init__(
            f"`git {command}` failed with exit code {code}: {said}",
            hint="mend what git says, and run the command again",
        )
        self.command = command
        self.code = code
        self.output = output


@dataclass(frozen=True, slots=True)
class Git:
    """One place to run git in; `variables` are added to its environment."""

    folder: Path
    isolated: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)

    def with_(self, **variables: str) -> "Git":
        """Return the same place with more environment variables."""
        return Git(self.folder, self.isolated, {**self.variables, **variables})

    def run(self, *arguments: str, data: bytes = b"", ok: Iterable[int] = (0,)) -> bytes:
        """Return standard output; raise GitFailed for an exit code that is not `ok`."""
        return self.ended(*arguments, data=data, ok=ok).stdout

    def ended(
        self, *arguments: str, data: bytes = b"", ok: Iterable[int] = (0,)
    ) -> "subprocess.CompletedProcess[bytes]":
        """Return the finished process; raise GitFailed for an exit code that is not `ok`."""
        # A session of its own: Ctrl-C reaches this process, which then ends the child.
        finished = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env=self._environment(),
            input=data,
            capture_output=True,
            check=False,
            start_new_session=True,
        )
        if finished.returncode not in ok:
            output = finished.stderr.decode(errors="replace")
            command = next((word for word in arguments if not word.startswith("-")), "")
            raise GitFailed(command, finished.returncode, output)
        return finished

    def line(self, *arguments: str) -> str:
        """Return standard output as one line of text."""
        return os.fsdecode(self.run(*arguments)).rstrip("\n")

    def _environment(self) -> dict[str, str]:
        # A hook's GIT_DIR or GIT_INDEX_FILE would send these commands to another repository.
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("GIT_") or key in _KEPT or key.startswith("GIT_CONFIG_")
        }
        if self.isolated:
            inherited = {k: v for k, v in inherited.items() if not k.startswith("GIT_CONFIG_")}
            inherited |= _ISOLATED
        quiet = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
        return {**inherited, **quiet, **self.variables}


def split(output: bytes) -> list[str]:
    """Return the NUL-terminated fields of an output, as file system names."""
    return [os.fsdecode(part) for part in output.split(b"\0") if part]


def joined(names: Iterable[str]) -> bytes:
    """Return names as NUL-terminated fields."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def shown(name: str) -> str:
    """Return a file name for a person: line breaks and bytes that are no text are spelled out."""
    text = os.fsencode(name).decode(errors="replace")
    return text if text == name and text.isprintable() else repr(text)[1:-1]
