"""docs/getting-started.md, typed as it stands; only ports are moved out of the way."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.conftest import ROOT
from tests.acceptance.test_main_job import on_database, running
from tools.demo import App, Receiver, free_port, wait_until

PAGE = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")


class Typist:
    """Types the marked blocks of the page into a shell in the project's folder."""

    def __init__(self, app: App, receiver_port: int) -> None:
        self._app = app
        self._receiver_port = receiver_port

    def types(self, block: str) -> str:
        """What the commands of the block print on stdout."""
        found = re.search(rf"<!-- test: {block} -->\n```console\n(.*?)```", PAGE, re.DOTALL)
        assert found, f"the page has no block marked {block!r}"
        script = re.sub(r"^\$ ", "", found[1], flags=re.MULTILINE)
        script = script.replace(":8000", f":{self._app.port}")
        script = script.replace(":9000", f":{self._receiver_port}")
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=self._app.folder,
            env=self._app.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def docs_receiver(app: App, port: int, secret: str) -> Iterator[subprocess.Popen[str]]:
    """The receiver that the project brings, from its first line to its end."""
    process = subprocess.Popen(
        ["python3", "docs/receiver.py", str(port)],
        cwd=app.folder,
        env=os.environ | {"WEBHOOK_SECRET": secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert str(port) in process.stdout.readline()
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=10)


def test_the_tutorial_ends_with_a_parked_message_that_was_delivered(
    project: App, tmp_path: Path
) -> None:
    """A webhook reaches the project's receiver; one that met a 404 arrives after a retry."""
    app = on_database(project, f"sqlite+aiosqlite:///{tmp_path}/app.db")
    app.port, port = free_port(), free_port()
    typist = Typist(app, port)
    with running(app, "dev", "--port", str(app.port)):
        wait_until(app.is_ready, "dev is not ready")
        printed = typist.types("endpoint")
        secret = next(word for word in printed.split() if word.startswith("whsec_"))
        with docs_receiver(app, port, secret) as receiver:
            typist.types("order")
            assert receiver.stdout is not None
            assert "acting on order.created" in receiver.stdout.readline()
            broken = Receiver(status=404)
            app.run("endpoints", "add", broken.url, "--types", "order.*")
            typist.types("order")
            wait_until(lambda: parked(app) != [], "nothing is parked")
            broken.status = 204
            waiting = parked(app)[0]
            printed = typist.types("parked")
            assert "rejected" in printed, printed
            headers, _ = broken.requests.get(timeout=30)
            sent = {name.lower(): value for name, value in headers.items()}
            assert sent["webhook-id"] == waiting["id"]


def parked(app: App) -> list[dict[str, str]]:
    """What waits for a person."""
    items: list[dict[str, str]] = json.loads(app.run("parked", "--json"))["items"]
    return items
