"""`admin`: the way into the pages under /admin."""

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.runtime import actor, open_database, settings_of_command, wait_for
from app.config import Settings, load_settings, read_environment, variable
from app.errors import AppError
from app.program import called

if TYPE_CHECKING:
    from app.db.engine import Database

commands = typer.Typer(help="The pages under /admin.", no_args_is_help=True)


# A group of one command: without a callback Typer would make it `admin` without a subcommand.
@commands.callback()
def _group() -> None:
    pass


Port = Annotated[
    int | None,
    typer.Option(
        min=1, max=65535, metavar="N",
        help="Of a server on this machine; default: the address in APP_PUBLIC_URL.",
    ),
]  # fmt: skip


@commands.command()
def link(port: Port = None) -> None:
    """Print a sign-in link for /admin; it works once, for 10 minutes."""
    from app.cli.output import note

    settings = settings_of_command()
    if port is not None:
        settings = replace(settings, public_url=local_url(port))
    print(wait_for(_link(settings)), flush=True)
    note("it works once, within 10 minutes")
    if port is None and variable("public_url") not in read_environment():
        note(f"APP_PUBLIC_URL is not set: for a server not at {settings.public_url} add --port N")


def local_url(port: int) -> str:
    """Where a server on this machine is reached."""
    return f"http://127.0.0.1:{port}"


def link_command(settings: Settings, port: int) -> str:
    """What to type for another link to the server on this port."""
    plain = load_settings().public_url == settings.public_url
    return f"{called()} admin link" + ("" if plain else f" --port {port}")


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
