"""The generated pages are what the code says now."""

from dataclasses import Field, fields
from typing import Any

import pytest

from app.config import Settings, variable
from tests.docs.generate import PAGES
from tests.docs.pages import read


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_generated_page_is_current(name: str) -> None:
    """After a change in a setting or a command: `make docs`."""
    assert read(name) == PAGES[name](), f"{name} is stale; run: make docs"


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: field.name)
def test_every_setting_says_what_it_is_for(field: Field[Any]) -> None:
    """A setting without a sentence would be a row without a meaning."""
    assert field.metadata["doc"]
    assert f"`{variable(field.name)}`" in read("docs/configuration.md")
