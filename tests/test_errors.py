"""What is told of an exception that nobody foresaw."""

import errno
from collections.abc import Callable

import pytest

from jobrunner.errors import CHAIN_MAX, FRAMES_MAX, WORDS_MAX, StorageError, bug_named, bug_places

PROMPT = "a heron at the weir"


def caught(raise_it: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as found:  # noqa: PT011 - whatever it is
        raise_it()
    return found.value


def quoting() -> None:
    raise ValueError(f"cannot draw {PROMPT}")


def of_its_author() -> None:
    raise ValueError("this is not reached")


def of_the_system() -> None:
    raise OSError(errno.ENOSPC, "No space left on device", f"/assets/{PROMPT}")


def of_the_store() -> None:
    raise StorageError(f"the disk took {7} bytes")


def translated() -> None:
    try:
        quoting()
    except ValueError as error:
        raise RuntimeError({PROMPT: 1}) from error


def together() -> None:
    raise ExceptionGroup("several", [caught(quoting), caught(of_its_author)])


def deep(left: int = 200) -> None:
    if not left:
        quoting()
    deep(left - 1)


def endless() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    raise one


@pytest.mark.parametrize(
    ("bug", "told"),
    [
        (quoting, "ValueError"),
        (of_its_author, "ValueError: this is not reached"),
        (of_the_system, "OSError: No space left on device"),
        (of_the_store, "StorageError: the disk took 7 bytes"),
        (translated, "RuntimeError"),
        (together, "ExceptionGroup: several"),
    ],
)
def test_only_words_that_are_nobodys_are_told(bug: Callable[[], object], told: str) -> None:
    found = caught(bug)
    assert bug_named(found) == told
    trace = bug_places(found)
    assert PROMPT not in trace
    assert trace.splitlines()[-1] == told
    assert f"in {getattr(bug, '__name__', '')}" in trace


def test_all_that_it_came_from_is_told_with_its_places() -> None:
    assert "in quoting\nValueError\n" in bug_places(caught(translated))
    trace = bug_places(caught(together))
    assert "in quoting\nValueError\n" in trace
    assert "ValueError: this is not reached" in trace


def test_it_has_a_bound() -> None:
    assert bug_places(caught(deep)).count("in deep") < FRAMES_MAX
    assert len(bug_places(caught(endless)).splitlines()) <= 2 * (FRAMES_MAX + 2)
    many = ExceptionGroup("many", [ValueError(str(number)) for number in range(100)])
    assert bug_places(many).count("ValueError") < CHAIN_MAX
    assert len(bug_named(StorageError("x" * 1000))) < WORDS_MAX + 20
