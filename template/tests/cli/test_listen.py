"""`listen`: a receiver for the person who wants to see what is sent."""

import json
import signal

import httpx

from tests.cli.command import Project, assert_sentence
from tests.cli.processes import read_until, running, stop


def address(process) -> str:
    """Where it listens, as it says itself."""
    said = read_until(process.stderr, "listening on")
    return said.split("listening on ")[1].split()[0]


def test_it_prints_what_a_test_sends_and_that_it_is_verified(embedded: Project):
    """The whole loop on one machine: add, listen, test."""
    with running(embedded, "listen", "--port", 0) as first:
        url = address(first)
    made = embedded.json("endpoints", "add", url, "--types", "*")
    port = url.rsplit(":", 1)[1].strip("/")
    with running(embedded, "listen", "--port", port, "--secret", made["secret"]) as process:
        address(process)
        report = embedded.json("endpoints", "test", made["id"])
        assert report["delivered"] is True
        said = read_until(process.stdout, "verified  -> 204")
        assert report["webhook_id"] in said
        assert "endpoint.test" in said
        assert json.loads(read_until(process.stdout, "\n}"))["type"] == "endpoint.test"
        assert stop(process, signal.SIGTERM) == (0, "", "")


def test_a_public_key_verifies_and_the_answer_can_be_chosen(embedded: Project):
    """To see what an endpoint does with a 503; as JSON, a line for each request."""
    with running(embedded, "listen", "--port", 0) as first:
        url = address(first)
    made = embedded.json("endpoints", "add", url, "--types", "*", "--signature", "v1a")
    port = url.rsplit(":", 1)[1].strip("/")
    arguments = ("--port", port, "--secret", made["secret"], "--answer", 503, "--json")
    with running(embedded, "listen", *arguments) as process:
        address(process)
        assert embedded.run("endpoints", "test", made["id"]).returncode == 1
        assert process.stdout is not None
        arrival = json.loads(process.stdout.readline())
        assert (arrival["verified"], arrival["answered"]) == (True, 503)
        assert arrival["headers"]["webhook-signature"].startswith("v1a,")


def test_what_does_not_verify_is_refused_and_said(embedded: Project):
    """Also what is no webhook at all; a repetition is pointed out; nothing moves the cursor."""
    secret = "whsec_" + "A" * 43 + "="
    with running(embedded, "listen", "--port", 0, "--secret", secret) as process:
        url = address(process)
        headers = {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
        for _ in range(2):
            assert httpx.post(url, headers=headers, content=b"\x1b[2J").status_code == 401
        said = read_until(process.stdout, "again  REFUSED too_old")
        assert "\x1b" not in said
        assert "\\u001b[2J" in said
        assert httpx.post(url, content=b"{}").status_code == 401
        read_until(process.stdout, "REFUSED missing_header")
        assert httpx.post(url, content=b"x" * 600_000).status_code == 413
        assert httpx.get(url).status_code == 501
        assert stop(process, signal.SIGINT)[0] == 0


def test_a_secret_that_is_none_and_a_port_that_is_taken_are_sentences(embedded: Project):
    """Exit 2 and 1, nothing on stdout."""
    assert_sentence(embedded.run("listen", "--port", 0, "--secret", "nonsense!"), 2, "--secret")
    with running(embedded, "listen", "--port", 0) as process:
        port = address(process).rsplit(":", 1)[1].strip("/")
        assert_sentence(embedded.run("listen", "--port", port), 1, f"port {port}", "--port")
