"""`db`: the schema up and down, and where it stands."""

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from app.cli.options import Json, Yes
from app.cli.runtime import open_database, schema_problem, settings_of_command, wait_for
from app.config import Settings
from app.errors import AppError, ConfigError, UsageError

commands = typer.Typer(help="The database's schema.", no_args_is_help=True)


@commands.command()
def upgrade(
    revision: Annotated[str, typer.Argument(help="Up to this one; default: the newest.")] = "head",
) -> None:
    """Bring the schema up to date; all of it, or nothing if a step fails."""
    wait_for(_move(settings_of_command(), revision, up=True))


@commands.command()
def downgrade(
    revision: Annotated[str, typer.Argument(help="Down to this one; `base` for nothing left.")],
    yes: Yes = False,
) -> None:
    """Bring the schema back; data of the undone migrations is lost."""
    from app.cli.output import confirm

    settings = settings_of_command()
    confirm(f"Downgrade to {revision}? Data of what is undone is lost.", yes=yes)
    wait_for(_move(settings, revision, up=False))


async def _move(settings: Settings, revision: str, *, up: bool) -> None:
    from alembic.util import CommandError

    from app.cli.output import note
    from app.db.migrate import downgrade as down
    from app.db.migrate import schema_state
    from app.db.migrate import upgrade as forward

    async with open_database(settings, any_schema=True) as database:
        before = await schema_state(database)
        try:
            await (forward if up else down)(database, revision)
        except CommandError as error:
            raise UsageError(str(error), hint="app/migrations/versions holds them all") from None
        after = await schema_state(database)
    if before.current == after.current:
        note(f"schema is at {after.current or 'nothing'} already, nothing changed")
    else:
        note(f"schema: {before.current or 'empty'} -> {after.current or 'empty'}")


@commands.command()
def revision(
    message: Annotated[str, typer.Argument(help="What it does, a few words.")],
) -> None:
    """Write a new, empty migration with the next number; prints its path."""
    from alembic import command

    from app.db.migrate import alembic_config

    if not message.strip():
        raise UsageError("the message is empty; it becomes the file's name")
    number = f"{_last_number() + 1:04d}"
    try:
        with redirect_stdout(sys.stderr):  # Alembic tells what it does
            script = command.revision(alembic_config(), message, rev_id=number)
    except OSError as error:
        raise ConfigError(
            f"can't write {error.filename}: {error.strerror}",
            hint="write migrations in the source tree, not in an installed copy",
        ) from None
    if script is None or isinstance(script, list):
        raise AppError("no migration was written")
    print(script.path)


def _last_number() -> int:
    from alembic.script import ScriptDirectory

    from app.db.migrate import alembic_config

    script = ScriptDirectory.from_config(alembic_config())
    known = [step.revision for step in script.walk_revisions()]
    return max((int(name) for name in known if name.isdecimal()), default=0)


@commands.command("check")
def check_schema(as_json: Json = False) -> None:
    """Say where the schema stands; exit 1 unless it is at the newest revision."""
    wait_for(_check(settings_of_command(), as_json=as_json))


async def _check(settings: Settings, *, as_json: bool) -> None:
    from app.cli.output import print_record
    from app.db.migrate import schema_state

    async with open_database(settings, any_schema=True) as database:
        schema = await schema_state(database)
    print_record(schema, as_json=as_json)
    problem = schema_problem(schema)
    if problem is not None:
        raise problem


@commands.command()
def reencrypt(as_json: Json = False) -> None:
    """Encrypt stored secrets anew with the present APP_SECRET_KEY; relays may go on meanwhile."""
    wait_for(_reencrypt(settings_of_command(), as_json=as_json))


async def _reencrypt(settings: Settings, *, as_json: bool) -> None:
    from app.api.audit import audit
    from app.cipher import Cipher, check_sentinel
    from app.cli.output import print_record
    from app.cli.runtime import actor
    from app.webhooks.reencryption import reencrypt as work

    cipher = Cipher.of(settings)
    async with open_database(settings) as database:
        await check_sentinel(database, cipher)
        done = await work(database, cipher)
        async with database.transaction() as session:
            await audit(session, actor(), "secrets.reencrypt", "", secrets=done.secrets)
    print_record(done, as_json=as_json)
