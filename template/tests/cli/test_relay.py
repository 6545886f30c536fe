"""`relay`: rounds, drains, stops in good order, and cuts when told twice."""

import json
import signal
import socket

import httpx

from tests.cli.command import Project, assert_sentence
from tests.cli.processes import answers, read_until, running, stop, wait_until
from tests.cli.seed import in_transaction
from tests.support.postgres import free_port
from tests.support.receiver import Answer, receiver_in_thread


async def publish_one(session) -> None:
    from app.outbox.event import Event
    from app.outbox.publish import publish

    await publish(session, Event(type="order.created", data={}))


def add(project: Project, url: str) -> str:
    """An endpoint for everything, and one message for it."""
    made = project.json("endpoints", "add", url, "--types", "*")
    in_transaction(project, publish_one)
    return made["id"]


def test_once_makes_one_round_and_counts(project: Project):
    """Nothing due: zeros. One due: delivered."""
    assert set(project.json("relay", "--once").values()) == {0}
    with receiver_in_thread() as receiver:
        add(project, receiver.on("/hook"))
        counts = project.json("relay", "--once")
        assert (counts["claimed"], counts["delivered"]) == (1, 1)
        assert len(receiver.requests) == 1


def test_drain_ends_when_nothing_is_due(embedded: Project):
    """A failed one is due later, so it does not keep the command from ending."""
    with receiver_in_thread() as receiver:
        add(embedded, receiver.on("/hook", Answer(500)))
        counts = embedded.json("relay", "--drain", "--concurrency", 1)
    assert (counts["failed"], counts["delivered"]) == (1, 0)
    assert embedded.json("messages", "stats")["pending"] == 1


def test_sigterm_lets_the_request_end_and_settles_it(project: Project):
    """Exit 0 with the counts; the message is sent."""
    stop_while_sending(project, signal.SIGTERM)


def test_sigint_does_the_same(embedded: Project):
    """Ctrl-C is no crash."""
    stop_while_sending(embedded, signal.SIGINT)


def stop_while_sending(project: Project, number: int) -> None:
    with receiver_in_thread() as receiver:
        add(project, receiver.on("/hook", Answer(200, delay_seconds=2)))
        with running(project, "relay", "--json") as process:
            receiver.wait_for(1, timeout=60)
            code, out, err = stop(process, number)
    assert code == 0, err
    assert json.loads(out)["delivered"] == 1
    assert project.json("messages", "stats")["sent"] == 1


def test_a_second_signal_cuts_and_the_exit_code_tells(project: Project):
    """Exit 1; the claim stays and comes back when its lease ends."""
    with receiver_in_thread() as receiver:
        add(project, receiver.on("/hook", Answer(200, delay_seconds=30)))
        with running(project, "relay") as process:
            receiver.wait_for(1, timeout=60)
            process.send_signal(signal.SIGTERM)
            read_until(process.stderr, "stopping")
            code, out, _ = stop(process)
    assert (code, out) == (1, "")
    assert project.json("messages", "stats")["claimed"] == 1


def test_a_relay_shows_its_metrics_where_it_is_told(project: Project):
    """Counts of this process, at GET /metrics and nowhere else; loopback."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with receiver_in_thread() as receiver:
        add(project, receiver.on("/hook"))
        with running(project, "relay", "--metrics-port", port) as process:
            receiver.wait_for(1, timeout=60)
            sent = 'relay_attempts_total{kind="webhook",outcome="delivered"} 1.0'
            wait_until(lambda: answers(f"{url}/metrics"), "metrics are served")
            wait_until(lambda: sent in httpx.get(f"{url}/metrics").text, "the attempt is counted")
            assert httpx.get(f"{url}/").status_code == 404
            assert httpx.post(f"{url}/metrics").status_code == 404
            code, _, _ = stop(process)
    assert code == 0


def test_a_metrics_port_that_is_taken_is_said(project: Project):
    """The address and the reason, no traceback."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = project.run("relay", "--metrics-port", port)
    assert_sentence(refused, 1, f"127.0.0.1:{port}", "--metrics-port")


def test_a_metrics_host_that_is_none_names_its_variable(embedded: Project):
    """There is no flag for it, so the hint names none."""
    refused = embedded.run(
        "relay", "--metrics-port", free_port(), APP_RELAY_METRICS_HOST="192.0.2.1"
    )
    assert_sentence(refused, 1, "192.0.2.1", "hint: choose another APP_RELAY_METRICS_HOST")


def test_once_and_drain_exclude_each_other(embedded: Project):
    """A usage error."""
    assert_sentence(embedded.run("relay", "--once", "--drain"), 2, "--once")
