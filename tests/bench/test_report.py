"""What is told of some rounds: medians, ratios within the run, and why to doubt a line."""

from jobrunner.bench.measuring import Sample, Values
from jobrunner.bench.report import Range, doubts, lines_of, ratios, short, table

CALM: Values = {"per_s": 100.0, "client": 0.2, "others": 0.1, "refused": 0.0}


def rounds(who: str, *rates: float, work: str = "W1", clients: int = 32) -> list[Sample]:
    return [Sample(work, who, clients, CALM | {"per_s": rate}) for rate in rates]


def test_a_line_has_the_median_and_the_spread_of_its_rounds() -> None:
    (line,) = lines_of(rounds("R", 300, 100, 200))
    assert line.rounds == 3
    assert line.figures["per_s"] == Range(200, 100, 300)
    assert str(line.figures["per_s"]) == "200 (100-300)"
    assert str(line.figures["client"]) == "0.2"


def test_rounds_in_turns_are_put_together() -> None:
    turns = [*rounds("R", 1), *rounds("large limits", 2), *rounds("R", 3)]
    assert [(line.who, line.rounds) for line in lines_of(turns)] == [("R", 2), ("large limits", 1)]


def test_our_rates_by_those_of_the_same_work_and_as_many_clients() -> None:
    told = [
        *rounds("R", 200),
        *rounds("restate", 400),
        *rounds("default limits", 50),
        *rounds("large limits", 100, work="W2"),
        *rounds("large limits", 100, clients=1),
        *rounds("bare", 900),
        *rounds("empty file", 100, work="W5 W1"),
        *rounds("9 ended", 90, work="W5 W1"),
    ]
    assert ratios(lines_of(told)) == {
        "W1, 32 clients: default limits / R": 0.25,
        "W1, 32 clients: default limits / restate": 0.125,
        "W5 W1, 32 clients: 9 ended / empty file": 0.9,
    }


def test_nothing_is_doubted_of_a_calm_run() -> None:
    assert list(doubts(lines_of(rounds("R", 1, 2)))) == []


def test_a_busy_client_busy_others_and_refusals_are_told() -> None:
    (line,) = doubts(lines_of([Sample("W1", "R", 1, CALM | {"client": 0.97})]))
    assert "the client was 97 % busy" in line
    (line,) = doubts(lines_of([Sample("W1", "R", 1, CALM | {"others": 1.5})]))
    assert line == "others had taken 1.5 to 1.5 cores in 1 lines: rates are too low there"
    (line,) = doubts(lines_of([Sample("W2", "R", 1, CALM | {"early": 7})]))
    assert line.endswith("7 early")


def test_a_table_for_each_work_and_one_for_the_lists() -> None:
    lists = [Sample(f"W5 {name}", "empty", 1, {"p50_ms": 1.0}) for name in ("all", "status")]
    start = Sample("W5 start", "empty", 1, {"ready_s": 0.5})
    text = list(table(lines_of([*rounds("R", 1), *lists, start])))
    heads = [line for line in text if line.startswith("work")]
    assert len(heads) == 3
    assert "a second" in heads[0]
    assert text.index(heads[2]) - text.index(heads[1]) == 4


def test_numbers_have_three_figures() -> None:
    assert [short(value) for value in (0, 0.12345, 9.876, 12.34, 1234.5, 32.0)] == [
        "0", "0.123", "9.88", "12.3", "1 234", "32"
    ]  # fmt: skip
