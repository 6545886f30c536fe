"""The files that a deployment is built from: compose.yaml and Dockerfile, without running them."""

import json
import re
from dataclasses import fields
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from app.config import Settings, variable
from tests.docs.pages import ROOT, read

SCHEMA = ROOT / "tests" / "compose_spec" / "compose-spec.json"  # published by the specification
SPARE_SECONDS = 10  # to settle, after one budget for claims under way and one for requests


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(read("compose.yaml"))
    return loaded


def test_compose_file_follows_the_compose_specification(compose: dict[str, Any]) -> None:
    """What the specification's own schema refuses, no version of compose needs to accept."""
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert [error.message for error in validator.iter_errors(compose)] == []


def test_the_schema_refuses_a_misspelt_key(compose: dict[str, Any]) -> None:
    """The check above can fail."""
    wrong = compose | {"services": {"api": {"imgae": "x"}}}
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert not validator.is_valid(wrong)


def test_nothing_starts_before_the_schema_is_there(compose: dict[str, Any]) -> None:
    """API and relays wait for the migrations, the migrations for a database that answers."""
    services = compose["services"]
    for name in ("api", "relay"):
        assert services[name]["depends_on"] == {
            "migrate": {"condition": "service_completed_successfully"}
        }
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_every_secret_is_asked_for_and_none_is_written_down(compose: dict[str, Any]) -> None:
    """A secret is `${NAME:?...}`: compose refuses to start without it, and no file holds it."""
    values = [
        str(value)
        for service in compose["services"].values()
        for name, value in service["environment"].items()
        if re.search("SECRET|PASSWORD|DATABASE_URL", name)
    ]
    assert len(values) >= 4
    assert [value for value in values if not re.search(r"\$\{[A-Z_]+:\?", value)] == []


def test_services_run_as_production_with_settings_that_exist(compose: dict[str, Any]) -> None:
    """A misspelt variable would be a warning in a log that nobody reads."""
    known = {variable(field.name) for field in fields(Settings)}
    for name in ("migrate", "api", "relay"):
        environment = compose["services"][name]["environment"]
        assert environment["APP_ENV"] == "production"
        assert set(environment) <= known


def test_stopping_waits_longer_than_a_drain(compose: dict[str, Any]) -> None:
    """A relay that is killed in its drain leaves requests without an outcome: they go out again."""
    for name in ("api", "relay"):
        grace = int(compose["services"][name]["stop_grace_period"].removesuffix("s"))
        assert grace >= 2 * Settings().shutdown_seconds + SPARE_SECONDS


def test_the_image_runs_as_a_user_without_rights() -> None:
    """The last stage names a user by number, so that a platform can see that it is not root."""
    last = read("Dockerfile").rpartition("\nFROM ")[2]
    users = re.findall(r"^USER (\S+)$", last, re.MULTILINE)
    assert users == ["10001"]
    assert last.index("\nUSER 10001") < last.index("\nCMD ")


def test_the_image_installs_the_pinned_versions() -> None:
    """What was tested is what is deployed: every install step with a network names the pins."""
    installs = re.findall(r"pip install (.*)", read("Dockerfile"))
    assert len(installs) == 2
    assert [
        line for line in installs if "constraints.txt" not in line and "--no-deps" not in line
    ] == []
