"""What a person sees on a terminal: whole ids, no colour when it is not wanted."""

import os
import pty
import subprocess

from tests.cli.command import Project
from tests.cli.seed import parked


def on_terminal(project: Project, *arguments: str, **changes: str) -> str:
    """What the command writes to a terminal of 80 columns."""
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            project.command(*arguments), cwd=project.folder, stdin=follower, stdout=follower,
            stderr=subprocess.DEVNULL, env=project.environment | {"COLUMNS": "80"} | changes,
        )  # fmt: skip
        os.close(follower)
        written = b""
        try:
            while chunk := screen.read(4096):
                written += chunk
        except OSError:  # how Linux says that nobody has the terminal open any more
            pass
        assert process.wait(60) == 0
    return written.decode()


def test_on_a_terminal_a_table_keeps_ids_whole(embedded: Project):
    """An id is there to be copied; a long error is folded, not cut."""
    (message,) = parked(embedded, "order.created", error="the receiver said " + "no " * 60)
    screen = on_terminal(embedded, "parked", NO_COLOR="1", TERM="dumb")
    assert message in screen
    assert screen.count("no") >= 60
    assert "\x1b[3" not in screen


def test_on_a_terminal_an_empty_list_says_so(embedded: Project):
    """The words go to stderr: there is no data."""
    assert on_terminal(embedded, "parked") == ""
    assert embedded.run("parked").stdout.startswith("id\ttype")
