"""Writes the generated pages: `make docs`, which is `python -m tests.docs.generate`."""

from collections.abc import Callable

from tests.docs import cli_reference, configuration, event_types
from tests.docs.pages import IN_PLACE, NAME, path_of

PAGES: dict[str, Callable[[], str]] = {
    "docs/cli.md": cli_reference.page,
    "docs/configuration.md": configuration.page,
    "docs/events.md": event_types.page,
}
# Pages that differ between projects, in the form that projects are generated from.
TEMPLATES: dict[str, Callable[[], str]] = {"docs/events.md": event_types.template}


def main() -> None:
    """Write every page whose text has changed and say so."""
    for name, page in PAGES.items():
        path, text = path_of(name), page()
        if IN_PLACE:
            text = TEMPLATES.get(name, page)().replace(NAME, "{{ project_name }}")
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.write_text(text, encoding="utf-8")
        print(f"written: {path}")


if __name__ == "__main__":
    main()
