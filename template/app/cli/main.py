"""The tree of commands. A module of commands is a Typer application or functions added here."""

import typer

from app.cli import (
    admin,
    check,
    db,
    dev,
    endpoints,
    handlers,
    init,
    keys,
    listen,
    messages,
    parked,
    prune,
    relay,
    replay,
    serve,
)

# Plain help: it is printed without loading rich, and the command reference is made of it.
# No exception hook: `run` turns deliberate errors into sentences, a bug shows its traceback.
commands = typer.Typer(
    help="Run and look after this application.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

commands.command()(init.init)
commands.command()(check.check)
commands.command()(dev.dev)
commands.command()(serve.serve)
commands.command(hidden=True)(serve.serve_for_development)
commands.command()(relay.relay)
commands.add_typer(db.commands, name="db")
commands.add_typer(endpoints.commands, name="endpoints")
commands.command()(listen.listen)
commands.command()(handlers.handlers)
commands.add_typer(keys.commands, name="keys")
commands.add_typer(messages.commands, name="messages")
commands.command()(parked.parked)
commands.command()(parked.retry)
commands.command()(parked.dismiss)
commands.command()(replay.replay)
commands.add_typer(admin.commands, name="admin")
commands.command()(prune.prune)
