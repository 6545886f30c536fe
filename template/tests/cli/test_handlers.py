"""`handlers`: what the code has, and what the database still holds for it."""

import pytest

from app.features import present
from tests.cli.command import Project

pytestmark = pytest.mark.skipif(
    "orders" not in present(), reason="the only handler belongs to the feature orders"
)


def test_each_handler_is_shown_with_its_types_and_its_schedule(embedded: Project):
    """From the code; nothing waits in a new database."""
    (item,) = embedded.json("handlers")["items"]
    assert (item["name"], item["types"], item["known"]) == ("receipt", "order.paid", True)
    assert (item["pending"], item["parked"]) == (0, 0)
    assert item["retry_span"].startswith("12 attempts over")
    assert "receipt\torder.paid" in embedded.ok("handlers")
