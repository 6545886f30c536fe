"""`admin`: the way into the pages under /admin."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from app.cli.runtime import actor, open_database, settings_of_command, wait_for
from app.config import Settings
from app.errors import AppError

if TYPE_CHECKING:
    from app.db.engine import Database

commands = typer.Typer(help="The pages under /admin.", no_args_is_help=True)


# A group of one command: without a callback Typer would make it `admin` without a subcommand.
@commands.callback()
def _group() -> None:
    pass


@commands.command()
def link() -> None:
    """Print a sign-in link for /admin; it works once, for 10 minutes."""
    from app.cli.output import note

    print(wait_for(_link(settings_of_command())), flush=True)
    note("it works once, within 10 minutes")


async def _link(settings: Settings) -> str:
    if not has_pages():
        raise AppError("this project has no admin pages", hint="they are the feature `admin`")
    async with open_database(settings) as database:
        return await new_link(database, settings)


def has_pages() -> bool:
    """Whether this project has the feature."""
    return find_spec("app.admin") is not None


async def new_link(database: "Database", settings: Settings) -> str:
    """A fresh sign-in link; only the token's hash is stored."""
    from app.api.audit import audit
    from app.api.signin import create_login_token

    async with database.transaction() as session:
        token = await create_login_token(session)
        await audit(session, actor(), "admin.link", "admin")
    return f"{settings.public_url.rstrip('/')}/admin/sign-in?token={token}"
