"""`python -m scaffolder` and the `scaffolder` command: signals first, then the command line."""

from scaffolder import interrupt


def main() -> None:
    """Run the command line."""
    interrupt.install()
    from scaffolder.cli import run

    run()


if __name__ == "__main__":
    main()
