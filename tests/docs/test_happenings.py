"""What may be subscribed to is one list: in the core, on every way in, and in what people read."""

import re
from typing import get_args

import pytest

from jobrunner.cli.jobs import HAPPENINGS
from jobrunner.config.settings import NotifySettings
from jobrunner.core.declaration.happenings import NAMES, OCCASIONS, UNASKED, Happening
from jobrunner.http.frame.openapi import document
from jobrunner.http.routes.table import CORE
from tests.docs.pages import read

ROW = re.compile(r"\| `(\w+)` \| `job\.(\w+)`[^|]* \| ([^|]+) \|")


def test_every_event_has_its_occasion() -> None:
    """An event without one would be offered and never happen."""
    assert set(OCCASIONS) == set(get_args(Happening)) == set(NAMES)


def test_the_page_offers_what_there_is_in_the_same_words() -> None:
    rows = {
        name: when
        for name, kind, when in ROW.findall(read("docs/notifications.md"))
        if name == kind
    }
    assert rows == {name: one.when for name, one in OCCASIONS.items()}
    assert {name for name, when in rows.items() if "unasked" in when} == set(UNASKED)


@pytest.mark.parametrize("name", OCCASIONS)
def test_event_can_be_asked_for_on_every_way_in(name: str) -> None:
    submission = document(CORE, [], "1")["components"]["schemas"]["Submission"]
    asked = submission["properties"]["notify_on"]
    assert asked["type"] == ["array", "null"]
    assert name in asked["items"]["enum"]
    assert asked["maxItems"] == len(OCCASIONS)
    assert name in HAPPENINGS
    assert name in str(NotifySettings.__annotations__["on"])
