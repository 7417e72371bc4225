"""What is said of a run that met every aim, and of one that missed one of them."""

import pytest
from msgspec.structs import replace

from jobrunner.bench.aims import Aim, Ran, aims


class Row(Ran, frozen=True):
    of_peak: float = 0.95
    made_per_s: float = 4000
    refused: int = 0
    refused_p99_ms: float = 0
    callback_p99_ms: float = 40
    strange: int = 0


CALM, PEAK = Row(32, 0.5, 0.5), Row(64, 0, 1)
MANY = Row(1000, 2, 0.9, refused=9, refused_p99_ms=190)
MORE = Row(1000, 5, 0.8, refused=9, refused_p99_ms=200)
MOST = Row(1000, 10, 0.6, refused=9, refused_p99_ms=180)
WELL = (PEAK, CALM, CALM, Row(32, 2), MANY, Row(32, 5, 0.85), MORE, Row(32, 10, 0.7), MOST)


def missed(rows: tuple[Row, ...], refusal_share: float = 15) -> list[Aim]:
    return [aim for aim in aims(rows, refusal_share) if not aim.met]


def test_a_run_that_met_all() -> None:
    said = [str(aim) for aim in aims(WELL, 15)]
    assert len(said) == 11
    assert all(line.startswith("yes") for line in said)


@pytest.mark.parametrize(
    ("row", "what", "found"),
    [
        (replace(CALM, refused=1), "nobody refused below capacity", "1 refused"),
        (replace(MANY, of_peak=0.89), "at 2 times the peak", "89 % with 1000 connections"),
        (replace(MORE, of_peak=0.74), "at 5 times the peak", "74 %"),
        (replace(MOST, of_peak=0.49), "at 10 times the peak", "49 %"),
        (replace(MANY, refused_p99_ms=201), "refusals p99", "201 ms"),
        (replace(PEAK, callback_p99_ms=251), "callbacks p99", "251 ms"),
        (replace(MORE, strange=1), "nothing broken", "1"),
    ],
)
def test_one_row_that_misses_an_aim(row: Row, what: str, found: str) -> None:
    told = [aim for aim in missed((*WELL, row)) if aim.what.startswith(what)]
    assert len(told) == 1
    assert told[0].found.startswith(found)
    assert str(told[0]).startswith("NO")


def test_a_refusal_that_costs_too_much() -> None:
    (told,) = missed(WELL, 15.1)
    assert told.what.startswith("a refusal costs")


def test_connections_that_matter() -> None:
    """11 points apart, where 10 are allowed; two runs of one kind count as their mean."""
    far = (Row(32, 2, 1.01), MANY)
    (told,) = missed(far)
    assert "between connections" in told.what
    assert missed((*far, Row(32, 2, 0.95))) == []


def test_twenty_thousand_a_second_are_enough() -> None:
    assert missed((replace(MOST, of_peak=0.4, made_per_s=20_000),)) == []


def test_nothing_is_said_of_what_was_not_measured() -> None:
    said = " ".join(str(aim) for aim in aims((PEAK,), 10))
    assert "times" not in said
    assert "capacity" not in said
