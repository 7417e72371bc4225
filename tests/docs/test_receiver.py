"""The receiver that docs/notifications.md shows takes what is ours, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from jobrunner.actors.features.notifications.signing import derived, sealed
from tests.docs.pages import read, snippets

NOW = 1_767_225_600
OLD, NEW = (derived(f"{number} of the service's secrets", "ada") for number in (1, 2))
BODY = b'{"type":"job.ended"}'


@pytest.fixture
def is_ours() -> Callable[..., bool]:
    (snippet,) = snippets(read("docs/notifications.md"), "python")
    names: dict[str, Any] = {}
    exec(snippet, names)
    found: Callable[..., bool] = names["is_ours"]
    return found


@pytest.mark.parametrize("known", [[OLD], [NEW], [OLD, NEW]])
def test_either_secret_of_a_rotation_does(is_ours: Callable[..., bool], known: list[str]) -> None:
    headers = sealed([NEW, OLD], "job-1-2-job", NOW, BODY)
    assert is_ours(headers, BODY, known, now=NOW + 299)


FORGED: list[tuple[str, dict[str, str], bytes]] = [
    ("another body", {}, BODY + b" "),
    ("another id", {"webhook-id": "job-1-3-job"}, BODY),
    ("another time", {"webhook-timestamp": str(NOW + 1)}, BODY),
    ("no signature", {"webhook-signature": ""}, BODY),
    ("another version", {"webhook-signature": "v2,abc"}, BODY),
    ("no time", {"webhook-timestamp": ""}, BODY),
    ("a time in words", {"webhook-timestamp": "1_767_225_600"}, BODY),
    ("a strange letter", {"webhook-signature": "v1,\u00e9"}, BODY),
]


@pytest.mark.parametrize(("why", "changed", "body"), FORGED, ids=[one[0] for one in FORGED])
def test_what_is_forged_is_refused(
    is_ours: Callable[..., bool], why: str, changed: dict[str, str], body: bytes
) -> None:
    headers = sealed([NEW], "job-1-2-job", NOW, BODY) | changed
    assert not is_ours(headers, body, [NEW], now=NOW)


def test_what_is_old_or_of_another_is_refused(is_ours: Callable[..., bool]) -> None:
    headers = sealed([NEW], "job-1-2-job", NOW, BODY)
    assert not is_ours(headers, BODY, [NEW], now=NOW + 301)
    assert not is_ours(headers, BODY, [OLD], now=NOW)
    assert not is_ours(headers, BODY, [derived("2 of the service's secrets", "eve")], now=NOW)
    assert not is_ours({}, BODY, [NEW], now=NOW)
