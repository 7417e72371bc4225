"""What a line looks like to people, and that it is as safe as the one for programs."""

import io
import json
import re

import pytest

from jobrunner.core.features.redaction import Redaction
from jobrunner.log import WITHHELD, Log
from jobrunner.log.forms import AsJson, AsWords, Form
from jobrunner.log.wanted import form_of
from jobrunner.ports import SystemClock

SECRET = "sesame-open-yourself"
NOON = re.compile(r"\d\d:\d\d:\d\d\.042")


class Stopped(SystemClock):
    def now(self) -> int:
        return 1_700_000_000_042


def said(form: Form, event: str, level: str = "info", **fields: object) -> str:
    stream = io.StringIO()
    log = Log(stream, Stopped(), form=form)
    log.clean_with(Redaction([SECRET]))
    log(event, level=level, **fields)
    return stream.getvalue()


def test_words_are_time_level_event_and_fields() -> None:
    line = said(AsWords(at_hand=True), "job.created", job_id="j1", credits_cost=2, other=None)
    assert NOON.match(line)
    assert line[12:] == " info    job.created          job_id=j1 credits_cost=2\n"


def test_elsewhere_they_have_their_day() -> None:
    line = said(AsWords(), "job.created")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.042 info    job\.created\n", line)


def test_texts_of_several_lines_stand_below() -> None:
    line = said(AsWords(), "plugin.fault", "error", traceback="one\n  two\n", workflow="w")
    first, *below = line.splitlines()
    assert first.endswith("error   plugin.fault         workflow=w")
    assert below == ["    traceback:", "      one", "        two"]


def test_what_is_not_one_word_is_quoted() -> None:
    line = said(AsWords(), "x", text="two words", empty="", named={"a": [1]}, quoted='"')
    assert line.rstrip().endswith(r'text="two words" named={"a":[1]} quoted="\""')


HOSTILE = ("\x1b[2J", "\x9b31m", "\x07", "\u202e", "\r", "\x7f", "\x1b]0;x\x07\nnext\x1b[1m")


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("event", ["detail", "reason"])
def test_no_stranger_orders_the_terminal_about(hostile: str, event: str) -> None:
    line = said(AsWords(), "x", "info", **{event: f"a{hostile}b"})
    assert all(one.isprintable() for one in line.replace("\n", ""))
    assert "a" in line
    assert "b" in line


@pytest.mark.parametrize("form", [AsJson(), AsWords(), AsWords(at_hand=True, coloured=True)])
def test_secrets_are_in_no_form(form: Form) -> None:
    withheld = dict.fromkeys(WITHHELD, "canary")
    line = said(form, "x", "error", **withheld, detail=f"it said {SECRET}\nand {SECRET}")
    assert "canary" not in line
    assert SECRET not in line
    assert "[redacted]" in line


def test_colours_are_for_those_who_see_them() -> None:
    assert "\x1b[31;1merror" in said(AsWords(at_hand=True, coloured=True), "x", "error")
    assert "\x1b" not in said(AsWords(at_hand=True), "x", "error")


def test_which_form() -> None:
    colourful = {"TERM": "xterm"}
    assert isinstance(form_of("auto", colourful, at_hand=False), AsJson)
    assert isinstance(form_of("json", colourful, at_hand=True), AsJson)
    assert isinstance(form_of("human", colourful, at_hand=False), AsWords)
    assert "\x1b" in said(form_of("auto", colourful, at_hand=True), "x")
    for dull in ({"TERM": "dumb"}, {}, colourful | {"NO_COLOR": "1"}):
        assert "\x1b" not in said(form_of("auto", dull, at_hand=True), "x")
    assert "\x1b" not in said(form_of("human", colourful, at_hand=False), "x")


def test_what_is_less_than_wanted_is_not_written_but_how_it_began() -> None:
    stream = io.StringIO()
    log = Log(stream, level="warning")
    log("job.created")
    log("service.ready", url="http://here")
    log("config.ignored", level="warning")
    log("job.unreadable", level="error")
    told = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert told == ["service.ready", "config.ignored", "job.unreadable"]
