"""`python -m app` is the command line, also where the project is not installed."""

from app.cli import run

if __name__ == "__main__":
    run()
