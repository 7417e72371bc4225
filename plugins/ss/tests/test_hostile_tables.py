"""Files that nobody would write who means well: each is worked on, or refused in words that say why
to somebody who never saw this program. None of them is a crash, and none of them takes for ever."""

import gzip
import os
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jobrunner_ss.drafting import draft
from jobrunner_ss.params import SsParams
from jobrunner_ss.running import run

from jobrunner.testing import Attempt, run_stage, run_stage_live

REFUSALS = {
    "INPUT_EMPTY", "INPUT_UNREADABLE", "INPUT_TOO_LARGE", "CONTRACT_COLUMN_NOT_FOUND",
    "MODEL_UNFIT",
}  # fmt: skip
PLAN = {"plan_id": "p" * 64, "fingerprint": "f"}
VALUES = st.one_of(
    st.sampled_from(
        ["", " ", "-", "?", "0", "1", "-1", "2.5", "1e308", "-1e308", "1e-320", "inf", "nan", "NA",
         "true", "False", "1,200", "1.200,5", "$5", "12 %", "٣", "²", "9" * 18, "9" * 20, "9" * 400,
         "1234567890123456", "1234567890123457", "=1+1", "@x", '"', '""', '"a', "a\"b", "'", "\\",
         "\0", "\x01", "\x0b", "\x1f", "\x85", "\u2028", "\ufeff", "😀", "é", "x" * 5000, "a b",
         "2024-01-01", "1/2", "0x1f", "1_000", "+-1", "e", "1e", "Unnamed: 0", "column 2", "const",
         "rows", "x: sum", "\r", "\r\n", "\n", "$x_{", "|"]
    ),
    st.text(max_size=6),
    st.integers().map(str),
    st.floats().map(repr),
)  # fmt: skip
NAMES = st.lists(VALUES, min_size=1, max_size=6)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Now and then a proper one, now and then one with rows of their own length."""
    separator = draw(st.sampled_from([",", ";", "\t", "|", ", "]))
    names = draw(st.one_of(st.just(["a", "b", "c"]), NAMES))
    ragged = draw(st.integers(0, 9)) == 0
    width = st.integers(0, 7) if ragged else st.just(len(names))
    kinds = draw(st.lists(st.sampled_from([VALUES, st.integers().map(str)]), min_size=7,
                          max_size=7))  # fmt: skip
    row = width.flatmap(lambda n: st.tuples(*kinds[:n]))
    rows = draw(st.lists(row, max_size=12)) * draw(st.sampled_from([1, 1, 3]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = end.join(separator.join(line) for line in [names, *rows])
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-16", "cp1252", "utf-16-be"]))
    return text.encode(encoding, "replace")


FILES = st.one_of(tables(), tables(), st.binary(max_size=200))
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["descriptive", "ols", "logit", "x"]),
        "outcome": st.sampled_from(["a", "b", "rows"]),
        "predictors": st.lists(st.sampled_from(["a", "b", "c", "const"]), max_size=3),
        "errors": st.sampled_from(["nonrobust", "HC0", "HC1", "HC3"]),
        "by": st.lists(st.sampled_from(["a", "b", "rows"]), max_size=2),
        "measures": st.lists(st.sampled_from(["a", "b", "c"]), max_size=3),
    },
)


def drafted(content: bytes, requirement: str = "explain a by b") -> Attempt:
    return run_stage(
        draft,
        SsParams(requirement=requirement),
        artifacts={"input": "/assets/a/content"},
        files={"input": content},
    )


def ran(content: bytes, proposal: Any, answers: dict[str, Any]) -> Attempt:
    artifacts = {
        "input": "/assets/a/content", "plan": {**PLAN, "answers": answers}, "draft": proposal,
    }  # fmt: skip
    alone = partial(run_stage_live, run, SsParams(), artifacts=artifacts, files={"input": content})
    return anyio.run(alone)


def in_words(tried: Attempt) -> None:
    """Done, or refused for good with a sentence of ours."""
    if tried.outcome == "done":
        return
    assert tried.failure is not None
    assert tried.failure.code in REFUSALS, (tried.failure.message, tried.failure.detail)
    assert not tried.failure.retryable
    assert "Error" not in tried.failure.message


@settings(max_examples=200, deadline=None)
@given(FILES)
@example(b"column 2,,x\n1,2,3\n4,5,6\n")
@example("a,b\n٣,1\n٤,3\n".encode())
@example(b"a,b\n" + b"1" * 400 + b",2\n3,4\n")
@example(b"a,b\n1e308,1\n-1e308,2\n")
def test_every_file_has_a_draft_or_is_refused_in_words(content: bytes) -> None:
    tried = drafted(content)
    in_words(tried)
    if tried.outcome == "done":
        assert msgspec.json.decode(msgspec.json.encode(tried.artifacts)) == tried.artifacts


@settings(max_examples=60, deadline=None)
@given(tables(), ANSWERS)
@example(b"a,b\n1e308,1\n-1e308,2\n1e308,2\n", {})
@example(b"a,b\n1.0,1\n1.0000000000000002,2\n", {})
@example(b"id,b\n" + b"".join(b"123456789012345%d,1\n" % n for n in range(10, 40)), {})
@example(b"a,b\n" + b"".join(b"%de307,%d\n" % (n, n) for n in range(9)),
         {"kind": "ols", "outcome": "b", "predictors": ["a"]})  # fmt: skip
@example(b"a,b\n1,2\n", {"by": ["a"], "measures": ["a"]})
def test_every_analysis_ends_done_or_is_refused_in_words(
    content: bytes, answers: dict[str, Any]
) -> None:
    tried = ran(content, {}, answers)
    in_words(tried)
    if tried.outcome == "done":
        assert msgspec.json.decode(msgspec.json.encode(tried.result)) == tried.result


def test_the_name_of_a_file_says_nothing_about_its_content(tmp_path: os.PathLike[str]) -> None:
    """Neither is a table unpacked that is called packed, nor is anything else."""
    from jobrunner_ss import table

    content = b"a,b\n" + b"1,2\n" * 50
    for ending in ("gz", "bz2", "zip", "xz", "zst", "tar", "tar.gz"):
        path = os.path.join(tmp_path, f"input.csv.{ending}")
        with open(path, "wb") as file:
            file.write(content)
        assert len(table.read(path)) == 50


@pytest.mark.parametrize("name", ["input.csv", "input.csv.gz"])
def test_what_is_packed_is_not_unpacked(tmp_path: os.PathLike[str], name: str) -> None:
    from jobrunner_ss import table

    from jobrunner import PermanentFailure

    path = os.path.join(tmp_path, name)
    with open(path, "wb") as file:
        file.write(gzip.compress(b"a,b\n" + b"1,2\n" * 1_000_000))
    with pytest.raises(PermanentFailure, match="packed") as caught:
        table.read(path)
    assert caught.value.code == "INPUT_UNREADABLE"


@pytest.mark.parametrize("place", ["header", "first", "later"])
def test_a_value_of_megabytes(place: str) -> None:
    """It is worked with, and shown by its beginning; as a name it is refused."""
    long = b"x" * 5_000_000
    content = {
        "header": b"a," + long + b"\n1,2\n3,4\n",
        "first": b"a,b\n1," + long + b"\n2,z\n",
        "later": b"a,b\n1,2\n" + b"1,2\n" * 50 + b"1," + long + b"\n2,z\n",
    }[place]
    tried = drafted(content)
    in_words(tried)
    assert (tried.outcome == "done") == (place != "header")
    done = ran(content, {}, {"by": ["b"], "measures": ["a"]})
    in_words(done)
    assert len(msgspec.json.encode(done.artifacts)) < 100_000


def test_a_wide_table_still_makes_a_draft_that_can_be_stored() -> None:
    names = ",".join(f"{n}{'界' * 70}" for n in range(500))
    rows = "\n".join(",".join(f"{'語' * 300}{n + k}" for n in range(500)) for k in range(12))
    tried = drafted(f"{names}\n{rows}\n".encode())
    in_words(tried)
    assert tried.outcome == "done"
    assert len(msgspec.json.encode(tried.artifacts)) < 4_000_000


def test_the_drawing_of_ids_counts_them() -> None:
    """Their differences are too small for an axis of such length."""
    content = b"id\n" + b"".join(b"%d\n" % (10**17 + n % 3) for n in range(30))
    tried = ran(content, {}, {})
    assert tried.outcome == "done", tried.failure
    assert [asset.asset_type for asset in tried.assets] == ["table", "figure", "report"]


def test_results_are_no_formulas() -> None:
    content = b'=HYPERLINK("x"),n\n' + b"=1+1,1\n@cmd,2\n-5,3\nplain,4\n" * 3
    tables = {False: b"\n=1+1,", True: b"\n'=1+1,"}
    for escaped, row in tables.items():
        tried = ran_with({"escape_formulas": escaped}, content)
        groups = next(data for data in tried.files.values() if b"n: sum" in data)
        assert row in groups
        assert b"\n-5,3" in groups


def ran_with(settings: dict[str, Any], content: bytes) -> Attempt:
    answers = {"by": ['=HYPERLINK("x")'], "measures": ["n"]}
    artifacts = {"input": "/assets/a/content", "plan": {**PLAN, "answers": answers}, "draft": {}}
    alone = partial(run_stage_live, run, SsParams(), artifacts=artifacts,
                    files={"input": content}, settings=settings)  # fmt: skip
    return anyio.run(alone)
