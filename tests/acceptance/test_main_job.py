"""The main job from the outside: real command lines, real processes, real sockets.

Everything here is what a user types; nothing imports the generated application.
"""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.conftest import environment, readme_block
from tools.demo import App, Receiver, free_port, wait_until

READY_SECONDS = 5.0
LISTENER = "http://127.0.0.1:9000/"  # of `listen`, in the README


@contextmanager
def running(app: App, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of the application, from start to SIGTERM."""
    log = (app.folder / f"{arguments[0]}-{time.monotonic_ns()}.log").open("wb")
    process = subprocess.Popen(
        [str(app.command), *arguments],
        cwd=app.folder,
        env=app.environment,
        stdout=log,
        stderr=log,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=40)
        log.close()


def on_database(app: App, url: str) -> App:
    """The same project with APP_DATABASE_URL pointing elsewhere."""
    other = App(app.folder)
    other.environment = environment(APP_DATABASE_URL=url)
    return other


def test_check_of_a_new_project_warns_about_its_empty_database_and_exits_0(project: App) -> None:
    """Nothing is wrong with a project that has not been started yet."""
    done = subprocess.run(
        [str(project.command), "check"],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "db upgrade" in done.stdout + done.stderr


def test_the_quick_start_of_the_readme_ends_in_a_verified_webhook(project: App) -> None:
    """`dev` is ready within 5 s; the README's second block places an order that is delivered."""
    receiver = Receiver(status=204)
    started = time.monotonic()
    with running(project, "dev", "--port", str(project.port)):
        wait_until(project.is_ready, "dev is not ready")
        assert time.monotonic() - started < READY_SECONDS
        script = "\n".join(readme_block("first webhook")).replace(":8000", f":{project.port}")
        assert LISTENER in script
        script = script.replace(LISTENER, receiver.url)
        done = subprocess.run(
            ["bash", "-euc", f"{script} --json"],
            cwd=project.folder,
            env=project.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        secret = next(word for word in done.stdout.split() if word.startswith("whsec_"))
        webhook_id, body = receiver.accepted(secret)
        assert webhook_id in done.stdout
        assert body["type"] == "order.created"
        assert (body["data"]["customer"], body["data"]["total"]) == ("Ada", "42.00")


def test_the_receiver_of_the_readme_shows_the_order(project: App, tmp_path: Path) -> None:
    """A newcomer who types both blocks sees the webhook arrive."""
    app = on_database(project, f"sqlite+aiosqlite:///{tmp_path}/app.db")
    app.port, port = free_port(), free_port()
    (receiver,) = readme_block("receiver")
    listen = receiver.removeprefix(".venv/bin/my-app ").split()
    with (
        running(app, "dev", "--port", str(app.port)),
        running(app, *listen, "--port", str(port)),
    ):
        wait_until(app.is_ready, "dev is not ready")
        script = "\n".join(readme_block("first webhook"))
        script = script.replace(":8000", f":{app.port}").replace(":9000", f":{port}")
        subprocess.run(
            ["bash", "-euc", script],
            cwd=app.folder,
            env=app.environment,
            capture_output=True,
            check=True,
        )
        (log,) = app.folder.glob("listen-*.log")
        wait_until(lambda: "order.created" in log.read_text(), "listen shows nothing")


def test_on_postgresql_an_api_and_two_relays_deliver_in_processes_of_their_own(
    project: App, postgresql_url: str
) -> None:
    """One URL changes; ten orders arrive, each once, verified."""
    app, receiver = on_database(project, postgresql_url), Receiver(status=204)
    app.port = free_port()
    app.run("db", "upgrade")
    with (
        running(app, "serve", "--port", str(app.port)),
        running(app, "relay"),
        running(app, "relay"),
    ):
        wait_until(app.is_ready, "serve is not ready")
        key = app.run("keys", "create", "--scope", "admin")
        assert len(key.split()) == 1, "keys create prints only the key"
        endpoint = json.loads(
            app.run("endpoints", "add", receiver.url, "--types", "order.*", "--json")
        )
        assert endpoint["id"]
        assert endpoint["secret"].startswith("whsec_")
        orders = {
            app.call("POST", "/orders", key, {"customer": f"c{n}", "total": "1.00"})["id"]
            for n in range(10)
        }
        arrived = [receiver.accepted(endpoint["secret"]) for _ in range(10)]
        assert {body["data"]["id"] for _, body in arrived} == orders
        assert len({webhook_id for webhook_id, _ in arrived}) == 10
        wait_until(lambda: stats(app).get("sent") == 10, "not all messages are sent")


def stats(app: App) -> dict[str, int]:
    """How many messages there are, by status."""
    counts: dict[str, int] = json.loads(app.run("messages", "stats", "--json"))
    return counts


def test_no_secret_of_a_new_project_is_in_its_git_history(project: App) -> None:
    """`.env` is ignored; `git log --all -p` shows no value of it."""
    secret = next(
        line.partition("=")[2]
        for line in (project.folder / ".env").read_text().splitlines()
        if line.startswith("APP_SECRET_KEY=")
    )
    history = subprocess.run(
        ["git", "log", "--all", "-p"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "APP_SECRET_KEY=" in history, "the example shows the name"
    assert secret not in history
    assert (project.folder / ".env").stat().st_mode & 0o777 == 0o600
