"""`endpoints`: where webhooks go, for which event types."""

import typer

commands = typer.Typer(help="Webhook endpoints.", no_args_is_help=True)


@commands.callback()
def _x() -> None:
    pass


@commands.command("list")
def list_() -> None:
    pass
