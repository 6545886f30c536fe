"""The tests of this folder run their commands where there is no network at all."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from tests.upgrade.conftest import OFFLINE, Project


def test_the_commands_have_no_network_interface(project: Project) -> None:
    """But for a loopback that is down; upgrades go through all the same."""
    if not OFFLINE:
        pytest.skip("`unshare --net` is not permitted here, so the network could not be removed")
    listed = subprocess.run(
        [*OFFLINE, "cat", "/proc/net/dev"], capture_output=True, text=True, check=True
    ).stdout
    names = [line.partition(":")[0].strip() for line in listed.splitlines() if ":" in line]
    assert names == ["lo"]
    probe = "import socket; print(socket.socket().connect_ex(('127.0.0.1', 9)))"
    answer = subprocess.run(
        [*OFFLINE, sys.executable, "-c", probe], capture_output=True, text=True, check=True
    ).stdout
    assert int(answer) == errno.ENETUNREACH
    assert project.upgrade().code == 0
    assert Path(project.root, "app/added.py").is_file()
