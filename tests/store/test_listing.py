"""Whatever a list can be asked for is looked at."""

from msgspec.structs import fields

from jobrunner.core.questions import JobFilter
from jobrunner.store.listing import NARROW

ELSEWHERE = {
    *("user_id", "after", "oldest_first"),  # the walk along an index
    *("statuses", "labels"),  # as many conditions as there are values
    *("limit", "offset"),
}


def test_every_field_of_a_filter_narrows_the_list() -> None:
    """A field that the store forgot would be taken at the door and change nothing."""
    assert {field.name for field in fields(JobFilter)} == NARROW.keys() | ELSEWHERE
