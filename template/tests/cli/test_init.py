"""`init`, and what a clone without `.env` is told."""

import stat

import pytest

from app.program import program
from tests.cli.command import Project, assert_sentence


def test_init_writes_a_private_env_with_a_fresh_secret(clone: Project):
    """Mode 0600, the placeholder replaced, everything else as in the example; nothing on stdout."""
    done = clone.run("init")
    path = clone.folder / ".env"
    assert (done.returncode, done.stdout) == (0, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = path.read_text().splitlines()
    secret = next(line for line in lines if line.startswith("APP_SECRET_KEY=")).partition("=")[2]
    assert len(secret) >= 43
    assert secret != "change-me"
    example = (clone.folder / ".env.example").read_text().splitlines()
    assert [line.replace(secret, "change-me") for line in lines] == example


def test_init_never_overwrites(fresh: Project):
    """Whoever loses the secret loses the endpoints' secrets."""
    before = (fresh.folder / ".env").read_text()
    assert_sentence(fresh.run("init"), 1, ".env exists")
    assert (fresh.folder / ".env").read_text() == before


def test_init_outside_of_a_project_says_where_it_looked(clone: Project):
    """No .env.example: one sentence naming the folder."""
    (clone.folder / ".env.example").unlink()
    assert_sentence(clone.run("init"), 1, str(clone.folder))


ID = "01890a5d-ac96-774b-bcce-b302099a8057"


COMMANDS = f"""
dev
serve
relay
db upgrade
db check
db downgrade base --yes
messages list
messages show {ID}
messages stats
messages erase {ID} --yes
parked
retry {ID}
dismiss {ID} --reason x
endpoints list
endpoints add https://example.com --types *
keys create --scope read
keys list
admin link
prune
"""


@pytest.mark.parametrize("command", COMMANDS.strip().splitlines())
def test_a_clone_without_env_is_told_about_init(clone: Project, command: str):
    """Every command that needs settings names the one that writes them."""
    done = clone.run(*command.split())
    assert_sentence(done, 1, "APP_SECRET_KEY is not set", f"{program()} init")
    assert not (clone.folder / "data").exists()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("APP_LEASE_SECONDS", "3"), ("APP_LEASE_SECONDS", "x"), ("APP_SECRET_KEY", "change-me")],
)
def test_a_broken_setting_is_one_sentence_that_names_it(fresh: Project, variable: str, value: str):
    """`init` would not help there: the hint is to correct the value."""
    production = {"APP_ENV": "production", "APP_ALLOW_PRIVATE_TARGETS": "false"}
    done = fresh.run("keys", "list", **production | {variable: value})
    assert_sentence(done, 1, variable, ".env")
    assert "init" not in done.stderr


def test_an_env_that_is_no_text_is_one_sentence(fresh: Project):
    """Every command reads it, so no command may break on it."""
    (fresh.folder / ".env").write_bytes(b"APP_ENV=\xff\xfe\n")
    for command in (["check"], ["keys", "list"], ["dev"]):
        done = fresh.run(*command)
        assert done.returncode == 1, command
        assert ".env can't be read" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
