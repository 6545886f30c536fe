"""`parked`, `retry`, `dismiss`: a person decides, and the audit log knows who."""

import getpass
import json
from uuid import uuid4

from app.outbox.message import ParkedReason
from tests.cli.command import Project
from tests.cli.seed import audited, parked, pending

ACTOR = f"cli:{getpass.getuser()}"


def status_of(project: Project, message: str) -> str:
    return project.json("messages", "show", message)["status"]


def test_parked_lists_only_what_waits_for_a_person(embedded: Project):
    """And filters by reason and type."""
    pending(embedded, "order.created")
    (gone,) = parked(embedded, "order.paid", reason=ParkedReason.GONE)
    (rejected,) = parked(embedded, "stock.low")
    assert [m["id"] for m in embedded.json("parked")["items"]] == [rejected, gone]
    assert [m["id"] for m in embedded.json("parked", "--reason", "gone")["items"]] == [gone]
    assert [m["id"] for m in embedded.json("parked", "--type", "stock.*")["items"]] == [rejected]


def test_retry_makes_it_pending_under_the_same_id_and_is_audited(project: Project):
    """Numbering goes on; the other message stays parked."""
    first, second = parked(project, "order.created", "order.paid")
    report = project.json("retry", first)
    assert [m["id"] for m in report["items"]] == [first]
    assert report["items"][0]["attempts"] == 1
    assert (status_of(project, first), status_of(project, second)) == ("pending", "parked")
    assert audited(project) == [(ACTOR, "message.retry", first)]


def test_one_id_that_fails_leaves_the_others_done_and_is_said(embedded: Project):
    """Exit 1, the error names the id and why, nothing is audited for it."""
    (waiting,) = pending(embedded, "order.created")
    (dead,) = parked(embedded, "order.paid")
    unknown = str(uuid4())
    done = embedded.run("retry", waiting, dead, unknown, "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [m["id"] for m in report["items"]] == [dead]
    assert [error["id"] for error in report["errors"]] == [waiting, unknown]
    assert "pending" in report["errors"][0]["error"]
    assert "retried 1 of 3" in done.stderr
    assert audited(embedded) == [(ACTOR, "message.retry", dead)]


def test_retry_all_needs_to_be_said_and_can_be_tried_dry(project: Project):
    """No ids and no --all, or both: exit 2, nothing changed."""
    ids = parked(project, "order.created", "order.paid", "stock.low")
    for arguments in ([], ["--type", "order.*"], [ids[0], "--all"], [ids[0], "--dry-run"]):
        done = project.run("retry", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
    dry = project.json("retry", "--all", "--type", "order.*", "--dry-run")
    assert dry == {"matched": 2, "retried": 0}
    assert audited(project) == []
    assert project.json("retry", "--all", "--type", "order.*") == {"matched": 2, "retried": 2}
    assert [status_of(project, message) for message in ids] == ["pending", "pending", "parked"]
    assert audited(project) == [(ACTOR, "message.retry", "filter")]


def test_dismiss_closes_without_delivery_and_is_audited(embedded: Project):
    """A reason is required; a dismissed message can't be retried."""
    (message,) = parked(embedded, "order.created")
    assert embedded.run("dismiss", message).returncode == 2
    assert embedded.run("dismiss", message, "--reason", " ").returncode == 1
    assert status_of(embedded, message) == "parked"
    assert embedded.json("dismiss", message, "--reason", "sent by hand")["errors"] == []
    assert status_of(embedded, message) == "dismissed"
    assert embedded.run("retry", message).returncode == 1
    assert audited(embedded) == [(ACTOR, "message.dismiss", message)]
