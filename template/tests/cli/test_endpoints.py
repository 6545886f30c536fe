"""`endpoints`: added, looked at, tested, rotated, disabled, deleted."""

from pathlib import Path

from tests.cli.command import Project, assert_sentence
from tests.cli.seed import audited
from tests.support.certificate import self_signed
from tests.support.receiver import Answer, receiver_in_thread

URL = "https://example.com/hooks"


def test_add_prints_id_and_secret_and_nothing_shows_the_secret_again(project: Project):
    """The patterns may be given one by one or with commas."""
    made = project.json(
        "endpoints", "add", URL, "--types", "order.*,stock.low", "--types", "user.created"
    )
    assert made["secret"].startswith("whsec_")
    assert made["types"] == ["order.*", "stock.low", "user.created"]
    assert (made["status"], made["tenant"]) == ("enabled", "")
    (item,) = project.json("endpoints", "list")["items"]
    assert item["id"] == made["id"]
    assert "secret" not in item
    assert made["secret"] not in project.ok("endpoints", "show", made["id"], "--json")
    assert audited(project)[0][1:] == ("endpoint.create", made["id"])


def test_a_bad_endpoint_is_refused_with_the_rule(embedded: Project):
    """Exit 1 with a sentence, nothing stored."""
    for url, types, words in (
        ("file:///etc/passwd", "*", "file"),
        ("https://user:pw@example.com/", "*", "credentials"),
        ("http://169.254.169.254/latest", "*", "169.254.169.254"),
        (URL, "a b", "'a b'"),
        (URL + "x" * 2000, "*", "2,000"),
    ):
        done = embedded.run("endpoints", "add", url, "--types", types)
        assert done.returncode == 1, (url, done.stderr)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert words in done.stderr
    assert embedded.json("endpoints", "list") == {"items": []}


def test_add_under_another_secret_key_is_refused(embedded: Project):
    """A secret that the relay can't read must not be stored."""
    embedded.ok("endpoints", "add", URL, "--types", "*")
    done = embedded.run(
        "endpoints", "add", URL, "--types", "*",
        APP_SECRET_KEY="another-secret-of-the-test-suite-0123",
    )  # fmt: skip
    assert_sentence(done, 1, "APP_SECRET_KEY")
    assert len(embedded.json("endpoints", "list")["items"]) == 1


def test_rotate_shows_a_new_secret_and_until_when_the_old_one_signs(embedded: Project):
    """The id stays."""
    made = embedded.json("endpoints", "add", URL, "--types", "*")
    rotated = embedded.json("endpoints", "rotate", made["id"], "--overlap-seconds", 3600)
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != made["secret"]
    assert rotated["old_secret_until"]


def test_disable_enable_delete_say_what_changed(embedded: Project):
    """And each is audited; delete asks."""
    made = embedded.json("endpoints", "add", URL, "--types", "*")
    done = embedded.run("endpoints", "disable", made["id"], "--reason", "moving")
    assert (done.returncode, done.stdout) == (0, "")
    assert f"endpoint {made['id']} is disabled" in done.stderr
    assert embedded.json("endpoints", "show", made["id"])["disabled_reason"] == "moving"
    assert embedded.json("endpoints", "enable", made["id"])["status"] == "enabled"
    assert_sentence(embedded.run("endpoints", "delete", made["id"]), 2, "--yes")
    assert embedded.json("endpoints", "delete", made["id"], "--yes")["status"] == "deleted"
    assert [action for _, action, _ in audited(embedded)] == [
        "endpoint.create", "endpoint.disable", "endpoint.enable", "endpoint.delete",
    ]  # fmt: skip


def test_test_sends_one_signed_ping_and_explains_the_answer(embedded: Project):
    """Exit 0 when it was taken, 1 when not; the words name the status."""
    with receiver_in_thread() as receiver:
        good = embedded.json("endpoints", "add", receiver.on("/good", Answer(204)), "--types", "*")
        bad = embedded.json("endpoints", "add", receiver.on("/bad", Answer(404)), "--types", "*")
        report = embedded.json("endpoints", "test", good["id"])
        assert (report["delivered"], report["status_code"]) == (True, 204)
        (request,) = receiver.wait_for(1)
        assert request.verify(good["secret"])["type"] == "endpoint.test"
        done = embedded.run("endpoints", "test", bad["id"])
        assert done.returncode == 1
        assert "404" in done.stdout


def test_a_retry_policy_and_limits_are_given_changed_and_taken_back(embedded: Project):
    """As waits or as JSON; the real span is printed beside the policy."""
    made = embedded.json(
        "endpoints", "add", URL, "--types", "*", "--retry", "1m,5m,15m,1h,6h,24h",
        "--rate-per-second", 5, "--max-in-flight", 2,
    )  # fmt: skip
    assert made["retry"]["delays_seconds"] == [60, 300, 900, 3600, 21600, 86400]
    assert made["retry_span"] == "7 attempts over 1 d 7 h"
    assert (made["rate_per_second"], made["max_in_flight"]) == (5, 2)
    assert "7 attempts over 1 d 7 h" in embedded.ok("endpoints", "show", made["id"])
    policy = '{"kind":"exponential","attempts":20,"max_age_seconds":60,"on_status":{"404":"retry"}}'
    changed = embedded.json(
        "endpoints", "update", made["id"], "--retry", policy, "--rate-per-second", 0
    )
    assert changed["retry"]["on_status"] == {"404": "retry"}
    assert changed["retry_span"] == "4 attempts over 35 s"
    assert (changed["rate_per_second"], changed["max_in_flight"]) == (None, 2)
    back = embedded.json("endpoints", "update", made["id"], "--retry", "default")
    assert back["retry_span"] == "12 attempts over 1 h 43 min"
    assert audited(embedded)[-1][1:] == ("endpoint.update", made["id"])


def test_a_retry_policy_that_is_none_is_refused(embedded: Project):
    """The forms that there are, or the rule that it breaks."""
    for text, words in (
        ("5 minutes", "no wait such as"),
        ('{"kind":"linear"}', "linear"),
        ('{"kind":"exponential","attempts":0}', "retry.attempts"),
    ):
        done = embedded.run("endpoints", "add", URL, "--types", "*", "--retry", text)
        assert done.returncode in (1, 2), done.stderr
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    assert embedded.json("endpoints", "list") == {"items": []}


def test_headers_credentials_and_a_certificate_are_given_and_taken_back(
    embedded: Project, tmp_path: Path
):
    """Shown by name only; `-` reads the credentials, so that they are in no history."""
    pem = tmp_path / "sender.pem"
    pem.write_text("".join(file.read_text() for file in self_signed(tmp_path, "sender.example")))
    made = embedded.json(
        "endpoints", "add", URL, "--types", "*", "--header", "X-Key: k3y", "--auth",
        "bearer t0k3n", "--client-certificate", pem,
    )  # fmt: skip
    assert set(made["headers"]) == {"x-key"}
    assert made["auth"] == {"kind": "bearer"}
    assert made["client_certificate"]["subject"] == "CN=sender.example"
    changed = embedded.json(
        "endpoints", "update", made["id"], "--header", "none", "--client-certificate", "none"
    )
    assert (changed["headers"], changed["client_certificate"]) == ({}, None)
    assert changed["auth"] == {"kind": "bearer"}
    for arguments, word in (
        (("--auth", "digest x"), "--auth"),
        (("--header", "no colon"), "no colon"),
        (("--client-certificate", tmp_path / "absent"), "absent"),
    ):
        done = embedded.run("endpoints", "update", made["id"], *arguments)
        assert_sentence(done, 2, word)
    refused = embedded.run("endpoints", "update", made["id"], "--header", "host: x")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "host is written by the sender" in refused.stderr
