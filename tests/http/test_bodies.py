"""Bytes into values: what is refused, where it is said to be wrong, and that it costs little."""

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from jobrunner.errors import Refused
from jobrunner.http.frame.bodies import INTEGER_MAX, NESTING_MAX, decode, fault_of

ANYTHING = msgspec.json.Decoder()


class Inner(Struct, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=0)]


class Outer(Struct, forbid_unknown_fields=True):
    inner: Inner
    names: list[str] = []


OUTER = msgspec.json.Decoder(Outer)


def refused(raw: bytes, decoder: Any = ANYTHING) -> Refused:
    with pytest.raises(Refused) as caught:
        decode(raw, decoder)
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"tru", b"[1,]", b'{"a" 1}', b"\xff", b'"\xff"', b"NaN", b'"\\ud800"', b"{}{}"],
)
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    assert refused(raw).extra["errors"][0]["path"] == "$"


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"{}", "$.inner"),
        (b'{"inner":{}}', "$.inner.count"),
        (b'{"inner":{"count":-1}}', "$.inner.count"),
        (b'{"inner":{"count":"1"}}', "$.inner.count"),
        (b'{"inner":{"count":1.5}}', "$.inner.count"),
        (b'{"inner":{"count":1,"more":2}}', "$.inner.more"),
        (b'{"inner":{"count":1},"names":["a",2]}', "$.names[1]"),
        (b"[]", "$"),
        (b"null", "$"),
    ],
)
def test_a_fault_names_its_place(raw: bytes, path: str) -> None:
    assert refused(raw, OUTER).extra["errors"][0]["path"] == path


def test_a_fault_inside_params_is_named_from_the_root_of_the_body() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"count":-1}', type=Inner)
    assert fault_of(caught.value, "$.params")[0] == "$.params.count"


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_nesting_is_bounded(opening: bytes) -> None:
    closing = b"".join(b"]" if byte == ord("[") else b"}" for byte in opening if byte in b"[{")
    levels = NESTING_MAX // len(closing)
    decode(opening * levels + b"1" + closing[::-1] * levels, ANYTHING)
    deeper = opening * (levels + 1) + b"1" + closing[::-1] * (levels + 1)
    assert "nests deeper" in refused(deeper).detail


def test_hostile_nesting_is_refused_however_long() -> None:
    assert "nests deeper" in refused(b"[" * 250_000).detail
    assert "nests deeper" in refused(b"[" * 250_000 + b"]" * 250_000).detail
    assert "nests deeper" in refused(b'{"a":' * 50_000).detail


def test_brackets_that_do_not_nest_or_stand_in_text_are_fine() -> None:
    decode(b"[" + b",".join([b"[]"] * 500) + b"]", ANYTHING)
    decode(msgspec.json.encode("[{" * 500), ANYTHING)
    decode(msgspec.json.encode(['\\"[', "[" * 100, '"' * 100]), ANYTHING)


@pytest.mark.parametrize("number", [2**53, -(2**53), 10**15, 0])
def test_whole_numbers_up_to_two_to_the_53rd(number: int) -> None:
    decode(b'{"n":%d}' % number, ANYTHING)


@pytest.mark.parametrize(
    "raw",
    [
        b"9007199254740993",
        b'{"n":-9007199254740993}',
        b"[1,123456789012345678901234567890]",
        b"9" * 5000,
    ],
)
def test_whole_numbers_beyond_that(raw: bytes) -> None:
    refused(raw)


@pytest.mark.parametrize(
    "raw", [b"0.12345678901234567890", b"12345678901234567.5", b"1234567890123456789e3"]
)
def test_other_numbers_may_be_long(raw: bytes) -> None:
    decode(raw, ANYTHING)


def test_digits_in_text_are_text() -> None:
    decode(b'{"9007199254740993":"12345678901234567890\\"99999999999999999"}', ANYTHING)


def test_hostile_text_is_looked_at_once() -> None:
    """No pattern here backtracks: each of these takes milliseconds, or the run does not end."""
    refused(b'{"inner":"' + b'\\"' * 120_000, OUTER)
    refused(b"[" + b"1234567890" * 25_000 + b".5]")
    decode(b"[" + b",".join([b"12345678901234567890.5"] * 10_000) + b"]", ANYTHING)
    refused(b"[" + b"1" * 250_000 + b"]")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text() | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def too_big(value: Any) -> bool:
    if isinstance(value, dict):
        return any(too_big(inner) for inner in value.values())
    if isinstance(value, list):
        return any(too_big(inner) for inner in value)
    return isinstance(value, int) and abs(value) > INTEGER_MAX


@given(values)
def test_the_cheap_checks_agree_with_a_walk(value: Any) -> None:
    raw = msgspec.json.encode(value)
    if too_big(value):
        refused(raw)
    else:
        assert decode(raw, ANYTHING) == msgspec.json.decode(raw)


@pytest.mark.parametrize("number", [b"7.0", b"7.00", b"70e-1", b"0.7e1", b"7E0", b"7"])
def test_a_whole_number_may_be_written_with_a_fraction(number: bytes) -> None:
    """As JSON Schema has it; what stands in text is not a number, whatever it looks like."""
    raw = b'{"inner": {"count": %s}, "names": ["7.0", "\\"7.0"]}' % number
    assert decode(raw, OUTER) == Outer(Inner(7), ["7.0", '"7.0'])


@pytest.mark.parametrize("number", [b"7.5", b"-1.0", b"1e400", b"9007199254740994.0", b'"7.0"'])
def test_what_is_no_whole_number_stays_refused(number: bytes) -> None:
    assert "$.inner.count" in refused(b'{"inner": {"count": %s}}' % number, OUTER).detail


def test_where_any_number_fits_it_stays_what_it_is() -> None:
    assert repr(decode(b"[7.0, 1e2]", ANYTHING)) == "[7.0, 100.0]"
