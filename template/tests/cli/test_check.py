"""`check` says everything at once; only errors make it fail."""

import json

import pytest
from sqlalchemy import text

from app.db.migrate import head_revision
from app.program import program
from tests.cli.command import Project, assert_sentence
from tests.cli.seed import in_transaction


def levels(report: dict[str, list[dict[str, str]]], check: str) -> list[str]:
    return [item["level"] for item in report["items"] if item["check"] == check]


def report_of(project: Project, code: int, **changes: str) -> dict[str, list[dict[str, str]]]:
    done = project.run("check", "--json", **changes)
    assert done.returncode == code, done.stderr + done.stdout
    return json.loads(done.stdout)


def test_a_migrated_database_has_no_findings(project: Project):
    """Exit 0, nothing but `ok`."""
    report = report_of(project, 0)
    assert {item["level"] for item in report["items"]} == {"ok"}
    assert {item["check"] for item in report["items"]} == {
        "configuration", "lease", "database", "clock", "schema", "secrets",
    }  # fmt: skip
    assert (report["errors"], report["warnings"]) == (0, 0)


def test_an_empty_database_is_a_warning_with_the_command(fresh: Project):
    """`new` does not migrate, so a fresh project passes."""
    report = report_of(fresh, 0)
    (schema,) = [item for item in report["items"] if item["check"] == "schema"]
    assert schema["level"] == "warning"
    assert schema["hint"] == f"run: {program()} db upgrade"


@pytest.mark.parametrize("revision", ["0001", "9999"])
def test_a_schema_behind_or_ahead_is_an_error(embedded: Project, revision: str):
    """Half a schema would fail at the first request, an unknown one at some later one."""
    if revision == head_revision():
        pytest.skip("this project has only one migration, so nothing can be behind it")
    in_transaction(
        embedded,
        lambda session: session.execute(
            text(f"UPDATE alembic_version SET version_num = '{revision}'")
        ),
    )
    report = report_of(embedded, 1)
    assert levels(report, "schema") == ["error"]
    done = embedded.run("messages", "list")
    assert_sentence(done, 1, f"the schema is at {revision}")


def test_an_unknown_variable_is_a_warning_with_the_nearest_name(embedded: Project):
    """A typing error in a setting must not be silent."""
    report = report_of(embedded, 0, APP_LEASE_SECOND="60")
    (warning,) = [item for item in report["items"] if item["level"] == "warning"]
    assert (
        warning["message"] == "APP_LEASE_SECOND is not a setting; did you mean APP_LEASE_SECONDS?"
    )


def test_broken_lease_arithmetic_is_an_error(embedded: Project):
    """A lease shorter than the request would send messages twice."""
    report = report_of(embedded, 1, APP_LEASE_SECONDS="16")
    assert levels(report, "configuration") == ["error"]


def test_another_secret_key_is_an_error(embedded: Project):
    """What is stored can't be read with it."""
    embedded.ok("endpoints", "add", "https://example.com/hooks", "--types", "*")
    report = report_of(embedded, 1, APP_SECRET_KEY="another-secret-of-the-test-suite-0123")
    assert levels(report, "secrets") == ["error"]


def test_an_env_file_that_others_can_read_is_a_warning(embedded: Project):
    """Mode 0600 is the rule."""
    (embedded.folder / ".env").chmod(0o644)
    assert levels(report_of(embedded, 0), "secrets")[0] == "warning"


def test_a_database_that_does_not_answer_is_an_error(embedded: Project):
    """One sentence with host and port, never the password."""
    url = "postgresql+asyncpg://app:hush@127.0.0.1:1/app"
    done = embedded.run("check", APP_DATABASE_URL=url)
    assert done.returncode == 1
    assert "the database app at 127.0.0.1:1 does not answer" in done.stdout
    assert "hush" not in done.stdout + done.stderr


def test_a_placeholder_secret_is_a_warning_in_development_and_an_error_in_production(
    embedded: Project,
):
    """Everybody knows the value of .env.example."""
    report = report_of(embedded, 0, APP_SECRET_KEY="change-me")
    assert "warning" in levels(report, "configuration")
    production = {"APP_ENV": "production", "APP_ALLOW_PRIVATE_TARGETS": "false"}
    report = report_of(embedded, 1, APP_SECRET_KEY="change-me", **production)
    assert levels(report, "configuration") == ["error"]
