"""`python -m scaffolder` and the `scaffolder` command: signals first, then the command line."""

import sys

from scaffolder import interrupt


def main() -> None:
    """Run the command line; an interrupt before it is loaded ends as politely as one after."""
    try:
        interrupt.install()
        from scaffolder.cli import app

        app(prog_name="scaffolder")
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted before anything was written\n")
        sys.stderr.write("hint: run the same command again\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
