"""`serve` and `dev`: start, relay, stop; what keeps them from starting is a sentence."""

import shutil
import signal
import socket

import httpx
import pytest

from tests.cli.command import ROOT, Project, assert_sentence
from tests.cli.processes import answers, read_until, serving, stop, wait_until
from tests.support.postgres import free_port
from tests.support.receiver import receiver_in_thread

HAS_PAGES = (ROOT / "app" / "admin" / "feature.py").exists()


def publish(project: Project, port: int) -> str:
    """One event over HTTP, of a type that no catalogue knows; its id."""
    key = project.ok("keys", "create", "--scope", "admin").strip()
    answer = httpx.post(
        f"http://127.0.0.1:{port}/api/events",
        json={"type": "thing.happened", "data": {"n": 1}},
        headers={"Authorization": f"Bearer {key}"},
        trust_env=False,
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_serve_relays_on_sqlite_and_sigterm_exits_0(embedded: Project):
    """A webhook of an event arrives and is settled; SIGTERM ends it in good order."""
    port = free_port()
    with receiver_in_thread() as receiver, serving(embedded, "serve", port) as process:
        made = embedded.json("endpoints", "add", receiver.on("/hook"), "--types", "thing.*")
        event = publish(embedded, port)
        (request,) = receiver.wait_for(1)
        assert request.verify(made["secret"])["type"] == "thing.happened"
        assert request.headers["webhook-event-id"] == event
        code, out, err = stop(process)
    assert (code, out) == (0, ""), err
    assert "Traceback" not in err
    wait_until(lambda: embedded.json("messages", "stats")["sent"] == 1, "the message is settled")


def test_serve_does_not_relay_on_postgresql(fresh: Project, postgresql_url: str):
    """Any number of servers; relays are processes of their own, here `relay --drain`."""
    fresh.variables["APP_DATABASE_URL"] = postgresql_url
    port = free_port()
    with receiver_in_thread() as receiver, serving(fresh, "serve", port):
        fresh.ok("endpoints", "add", receiver.on("/hook"), "--types", "*")
        publish(fresh, port)
        assert fresh.json("messages", "stats")["pending"] == 1
        assert fresh.json("relay", "--drain")["delivered"] == 1
        assert len(receiver.requests) == 1


def test_a_port_in_use_is_one_sentence(embedded: Project):
    """Exit 1 naming address and port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for command in ("serve", "dev"):
            assert_sentence(embedded.run(command, "--port", port), 1, f"127.0.0.1:{port}", "--port")


def test_one_process_serves_and_relays_on_a_sqlite_file(embedded: Project):
    """A second server or a relay is refused with exit 2; short commands still work."""
    with serving(embedded, "serve", free_port()) as process:
        for command in ("serve --port", "dev --port", "relay --once --concurrency"):
            done = embedded.run(*command.split(), free_port())
            assert_sentence(done, 2, f"process {process.pid}", "APP_DATABASE_URL")
        embedded.ok("keys", "create", "--scope", "read")
        process.kill()
        process.wait()
    assert embedded.json("relay", "--once")["claimed"] == 0


def test_dev_migrates_serves_relays_and_stops(fresh: Project):
    """From nothing to a delivered webhook; it prints URLs and a sign-in link."""
    port = free_port()
    with receiver_in_thread() as receiver, serving(fresh, "dev", port) as process:
        fresh.ok("endpoints", "add", receiver.on("/hook"), "--types", "*")
        publish(fresh, port)
        receiver.wait_for(1)
        code, out, err = stop(process, signal.SIGINT)
    assert code == 0, err
    assert f"http://127.0.0.1:{port}/docs" in out
    if HAS_PAGES:
        assert f"http://127.0.0.1:{port}/admin/sign-in?token=" in out
    assert not answers(f"http://127.0.0.1:{port}/health/live")


@pytest.mark.skipif(not HAS_PAGES, reason="this project has no admin pages")
def test_dev_names_the_command_that_signs_in_on_its_own_port(fresh: Project):
    """Without the port the link would lead to the default one, where nobody answers."""
    port = free_port()
    with serving(fresh, "dev", port) as process:
        said = read_until(process.stdout, "Ctrl-C stops")
        _, found, options = said.partition(" admin link")
        assert found, said
        options = options.splitlines()[0].split()
        assert options == ["--port", str(port)]
        done = fresh.run("admin", "link", *options)
        answer = httpx.get(done.stdout.strip(), trust_env=False, follow_redirects=True)
        assert (answer.status_code, answer.url.path) == (200, "/admin/parked")
        plain = fresh.run("admin", "link")
    assert plain.stdout.startswith("http://127.0.0.1:8000/admin/sign-in?token=")
    assert "--port" in plain.stderr
    assert "--port" not in done.stderr


def test_dev_starts_anew_on_a_change_also_after_a_crash(fresh: Project):
    """A syntax error is shown and waited out; the next change brings the application back."""
    shutil.copytree(ROOT / "app", fresh.folder / "app", ignore=shutil.ignore_patterns("__py*"))
    fresh.variables["PYTHONPATH"] = str(fresh.folder)
    port, wiring = free_port(), fresh.folder / "app" / "wiring.py"
    url, good = f"http://127.0.0.1:{port}/health/live", wiring.read_text()
    with serving(fresh, "dev", port) as process:
        wiring.write_text(good + "\nbroken =\n")
        err = read_until(process.stderr, "waiting for a change")
        assert "SyntaxError" in err
        assert "wiring.py changed" in err
        assert not answers(url)
        wiring.write_text(good)
        wait_until(lambda: answers(url), "the mended application answers")
        assert stop(process)[0] == 0


def test_the_child_of_dev_ends_with_its_supervisor(fresh: Project):
    """Also when the supervisor is killed: nobody else would stop it."""
    port = free_port()
    with serving(fresh, "dev", port) as process:
        process.kill()
        wait_until(lambda: not answers(f"http://127.0.0.1:{port}/health/live"), "it is down")


def test_serving_under_another_secret_key_is_refused(embedded: Project):
    """A wrong key refuses to start, it never parks messages."""
    embedded.ok("endpoints", "add", "https://example.com/", "--types", "*")
    done = embedded.run("serve", APP_SECRET_KEY="another-secret-of-the-test-suite-0123")
    assert_sentence(done, 1, "APP_SECRET_KEY")
