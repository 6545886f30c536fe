"""Ids sort in the order in which they were made."""

from app.ids import uuid7


def test_ids_of_one_process_sort_as_they_were_made():
    """Also the thousands that fall into one millisecond."""
    made = [uuid7() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {one.version for one in made} == {7}
