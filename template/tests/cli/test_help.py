"""The command line as a whole: complete, documented, quick."""

import subprocess
import sys

from tests.cli.command import Project, assert_sentence
from tests.docs.cli_reference import tree

LOOK = """
import sys
sys.argv = ["app", "--help"]
from app.cli import run
try:
    run()
except SystemExit:
    pass
heavy = {"litestar", "sqlalchemy", "alembic", "httptools", "rich", "uvicorn", "cryptography"}
loaded = sorted(heavy & set(sys.modules))
sys.exit(f"loaded: {loaded}" if loaded else 0)
"""
NAMES = """
init check dev serve relay parked retry dismiss replay prune listen handlers
db.upgrade db.downgrade db.revision db.check db.reencrypt
endpoints.add endpoints.list endpoints.show endpoints.test endpoints.rotate endpoints.disable
endpoints.enable endpoints.delete endpoints.update
keys.create keys.list keys.revoke
messages.list messages.show messages.stats messages.erase
admin.link
"""


def test_help_loads_neither_litestar_nor_sqlalchemy(fresh: Project):
    """So that it answers at once."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK], env=fresh.environment, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_every_command_is_there():
    """The list is the contract; a new command is added here too."""
    assert {name.replace(" ", ".") for name in tree()} == set(NAMES.split())


def test_every_command_option_and_argument_has_help():
    """It is all that the reference page is made of."""
    without = [
        f"{name} {parameter.name}"
        for name, command in tree().items()
        for parameter in command.params
        if not parameter.help
    ]
    assert without == []
    assert all(command.help for command in tree().values())


def test_a_misspelt_command_is_a_usage_error_with_the_nearest_name(fresh: Project):
    """Exit 2, empty stdout."""
    assert_sentence(fresh.run("pasked"), 2, "parked", "--help")
