"""The page on upgrades says what there is: every flag, every verdict, every exit code."""

import re

import typer
from typer.main import get_command

from scaffolder.cli import app
from scaffolder.upgrade.verdicts import Verdict
from tests.upgrade.conftest import ROOT

PAGE = (ROOT / "docs" / "upgrade.md").read_text("utf-8")


def test_every_flag_is_on_the_page() -> None:
    """A flag that nobody can read about is none."""
    command = get_command(app)
    assert isinstance(command, typer.core.TyperGroup)
    for name in ("upgrade", "diff", "status"):
        flags = [flag for option in command.commands[name].params for flag in option.opts]
        missing = [flag for flag in flags if flag.startswith("--") and flag not in PAGE]
        assert missing == [], name


def test_every_verdict_is_on_the_page() -> None:
    """With what it means."""
    rows = re.findall(r"^\| `([a-z ]+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(Verdict)
