"""`admin`: the way into the pages under /admin."""

from importlib.util import find_spec

import typer

from app.cli.runtime import actor, open_database, settings_of_command, wait_for
from app.config import Settings
from app.errors import AppError

commands = typer.Typer(help="The pages under /admin.", no_args_is_help=True)


# A group of one command: without a callback Typer would make it `admin` without a subcommand.
@commands.callback()
def _group() -> None:
    pass


@commands.command()
def link() -> None:
    """Print a sign-in link for /admin; it works once, for 10 minutes."""
    from app.cli.output import note

    print(wait_for(new_link(settings_of_command())), flush=True)
    note("it works once, within 10 minutes")


async def new_link(settings: Settings) -> str:
    """A fresh sign-in link; only the token's hash is stored."""
    if find_spec("app.admin.feature") is None:
        raise AppError("this project has no admin pages", hint="they are the feature `admin`")
    from app.api.audit import audit
    from app.api.signin import create_login_token

    async with open_database(settings) as database, database.transaction() as session:
        token = await create_login_token(session)
        await audit(session, actor(), "admin.link", "admin")
    return f"{settings.public_url.rstrip('/')}/admin/sign-in?token={token}"
