"""Reading a table that a stranger has made."""

import tracemalloc
from pathlib import Path

import pytest
from jobrunner_ss import header, table
from jobrunner_ss.as_numbers import is_number

from jobrunner import PermanentFailure


def kept(folder: Path, content: bytes | str) -> str:
    path = folder / "input.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def kinds(path: str) -> dict[str, str]:
    return {one["name"]: one["kind"] for one in table.described(table.read(path))}


def refused(folder: Path, content: bytes | str) -> PermanentFailure:
    with pytest.raises(PermanentFailure) as caught:
        table.read(kept(folder, content))
    return caught.value


def test_a_column_is_what_its_values_are(tmp_path: Path) -> None:
    rows = "\n".join(f"{n},{n % 2},{'abc'[n % 3]},name {n},true" for n in range(40))
    path = kept(tmp_path, f"size,flag,letter,name,always\n{rows}\n")
    assert kinds(path) == {
        "size": "numeric", "flag": "binary", "letter": "category", "name": "text",
        "always": "category",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "called"),
    [
        ("column 2,,x", ["column 2", "column 2'", "x"]),
        (",column 1,", ["column 1'", "column 1", "column 3"]),
        (",,column 2,column 2'", ["column 1", "column 2''", "column 2", "column 2'"]),
    ],
)
def test_a_column_without_a_name_gets_one_that_no_other_has(
    tmp_path: Path, names: str, called: list[str]
) -> None:
    row = ",".join(map(str, range(len(called))))
    path = kept(tmp_path, f"{names}\n{row}\n{row}\n")
    assert list(table.read(path).columns) == called


def test_holes_are_counted_and_not_filled(tmp_path: Path) -> None:
    path = kept(tmp_path, "a,b\n1,x\n,y\n3,\n-,x\n\n")
    first, second = table.described(table.read(path))
    assert (first["missing"], second["missing"]) == (2, 1)
    assert first["mean"] == 2.0
    assert second["levels"] == {"x": 2, "y": 1}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_usual_separator(tmp_path: Path, separator: str) -> None:
    lines = [["a", "b", "c"], ["1", "two words", "3"], ["4", "five", "6"]]
    frame = table.read(kept(tmp_path, "\n".join(separator.join(line) for line in lines)))
    assert list(frame.columns) == ["a", "b", "c"]
    assert frame["c"].tolist() == [3, 6]


def test_separators_inside_quotes_are_text(tmp_path: Path) -> None:
    frame = table.read(kept(tmp_path, 'name,size\n"Smith, Jo; the elder",3\n"Doe, A; B",4\n'))
    assert frame["name"].tolist() == ["Smith, Jo; the elder", "Doe, A; B"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_any_usual_encoding(tmp_path: Path, encoding: str) -> None:
    frame = table.read(kept(tmp_path, "städte,größe\nKöln,3\nMünchen,4\n".encode(encoding)))
    assert list(frame.columns) == ["städte", "größe"]
    assert frame["städte"].tolist() == ["Köln", "München"]


def test_an_odd_letter_far_down_is_no_reason_to_give_up(tmp_path: Path) -> None:
    """The beginning looks like UTF-8, and the rest is not."""
    content = b"name,size\n" + b"plain,1\n" * 20_000 + "Köln,2\n".encode("cp1252")
    frame = table.read(kept(tmp_path, content))
    assert (len(frame), frame["name"].iloc[-1]) == (20_001, "Köln")


def test_a_letter_that_the_sample_cuts_in_two(tmp_path: Path) -> None:
    line = "é" * 40 + ",1\n"
    content = "x,y\n" + line * (header.SAMPLE // len(line.encode()) + 50)
    assert table.read(kept(tmp_path, content))["x"].iloc[0] == "é" * 40


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ('a,b\n"1,200",x\n"3,400.5",y\n', [1200.0, 3400.5]),
        ("a;b\n1,5;x\n2,25;y\n", [1.5, 2.25]),
        ("a;b\n1.200,5;x\n3;y\n", [1200.5, 3.0]),
        ("a,b\n12 %,x\n7 %,y\n", [12.0, 7.0]),
        ("a,b\n$5,x\n$7.5,y\n", [5.0, 7.5]),
    ],
)
def test_numbers_as_people_write_them(tmp_path: Path, content: str, values: list[float]) -> None:
    frame = table.read(kept(tmp_path, content))
    assert frame["a"].tolist() == values
    assert "'a' is read as numbers" in table.notes(frame)[0]


def test_a_column_that_is_nearly_numbers_stays_text_and_says_so(tmp_path: Path) -> None:
    rows = "\n".join(f"{n},1" for n in range(20))
    frame = table.read(kept(tmp_path, f"a,b\n{rows}\nabout 7,1\n"))
    assert not is_number(frame["a"])
    assert table.notes(frame) == [
        "'a' is no column of numbers: 1 of its values are none, as 'about 7'"
    ]


def test_boundless_numbers_are_missing(tmp_path: Path) -> None:
    frame = table.read(kept(tmp_path, "a,b\ninf,1\n2,-inf\n3,4\n"))
    assert int(frame.isna().sum().sum()) == 2


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("", "INPUT_EMPTY", "no rows"),
        ("\n \n\n", "INPUT_EMPTY", "no rows"),
        ("a,b\n", "INPUT_EMPTY", "no rows below"),
        (b"PK\x03\x04\x00\x00", "INPUT_UNREADABLE", "save the table as CSV"),
        ("a,b,a\n1,2,3\n", "INPUT_UNREADABLE", "two columns are called 'a'"),
        ("1,2,3\n4,5,6\n", "INPUT_UNREADABLE", "numbers where the names"),
        ("a,b\n1,2\n3,4,5\n", "INPUT_UNREADABLE", "line 3 has 3 values"),
        ("a,b\n" + "1,2\n" * 20_000 + "1,2,3,4\n", "INPUT_UNREADABLE", "20002"),
        ('a,b\n1,"never closed\n', "INPUT_UNREADABLE", "no CSV"),
        (",".join(f"c{n}" for n in range(501)) + "\n", "INPUT_TOO_LARGE", "501 columns"),
    ],
)
def test_what_is_wrong_is_said_in_words(
    tmp_path: Path, content: bytes | str, code: str, said: str
) -> None:
    failure = refused(tmp_path, content)
    assert failure.code == code
    assert said in failure.detail


def test_one_column_is_a_table(tmp_path: Path) -> None:
    assert kinds(kept(tmp_path, "size\n1\n2\n3\n")) == {"size": "numeric"}


def test_a_separator_at_the_end_of_every_line(tmp_path: Path) -> None:
    frame = table.read(kept(tmp_path, "a,b,\n1,2,\n3,4,\n"))
    assert list(frame.columns) == ["a", "b"]


def test_an_unnamed_column_gets_a_name(tmp_path: Path) -> None:
    assert list(table.read(kept(tmp_path, ",b\n1,2\n3,4\n")).columns) == ["column 1", "b"]


def test_too_many_rows_are_refused_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a part of a table as if it were the table."""
    monkeypatch.setattr(table, "ROWS_MAX", 100)
    assert len(table.read(kept(tmp_path, "a\n" + "7\n" * 100))) == 100
    assert refused(tmp_path, "a\n" + "7\n" * 101).code == "INPUT_TOO_LARGE"


@pytest.mark.long
def test_a_million_rows_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("w") as file:
        file.write("price,visitors,region,sales\n")
        for start in range(0, 1_000_000, 1000):
            block = range(start, start + 1000)
            file.write("".join(f"{n % 97}.5,{n % 400},{'nsew'[n % 4]},{n % 1009}\n" for n in block))
    tracemalloc.start()
    frame = table.read(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(frame) == 1_000_000
    assert peak < 1024**3
