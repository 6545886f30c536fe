"""`keys`: shown once, stored as a hash."""

from app.api import keys as service
from app.cli.keys import Scope
from tests.cli.command import Project
from tests.cli.seed import audited


def test_create_prints_only_the_key_on_stdout(project: Project):
    """So that `KEY=$(my-app keys create …)` works; the list never shows it."""
    done = project.run("keys", "create", "--scope", "admin", "--description", "me")
    assert done.returncode == 0, done.stderr
    (key,) = done.stdout.splitlines()
    assert key.startswith("sk_")
    assert key not in done.stderr
    (item,) = project.json("keys", "list")["items"]
    assert (item["scope"], item["tenant"], item["description"]) == ("admin", None, "me")
    assert key not in project.ok("keys", "list")
    assert audited(project)[0][1:] == ("key.create", item["id"])


def test_a_tenant_of_the_empty_name_is_not_an_operator(embedded: Project):
    """'' is a tenant of its own."""
    made = embedded.json("keys", "create", "--scope", "read", "--tenant", "")
    assert set(made) == {"key", "id", "scope", "tenant"}
    assert made["tenant"] == ""


def test_revoke_marks_the_key(embedded: Project):
    """It stays listed as evidence."""
    made = embedded.json("keys", "create", "--scope", "events:write")
    embedded.ok("keys", "revoke", made["id"])
    (item,) = embedded.json("keys", "list")["items"]
    assert item["revoked_at"] is not None


def test_an_unknown_scope_is_a_usage_error(embedded: Project):
    """Exit 2 with the scopes there are."""
    done = embedded.run("keys", "create", "--scope", "root")
    assert (done.returncode, done.stdout) == (2, "")
    assert "events:write" in done.stderr


def test_the_command_and_the_service_know_the_same_scopes():
    """The command has its own list so that help does not load the application."""
    assert [scope.value for scope in Scope] == [scope.value for scope in service.Scope]
