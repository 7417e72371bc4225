"""Steps out of what was said, with and without a model that writes them."""

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from jobrunner_howera.drafting import draft, read_written
from jobrunner_howera.outline import STEPS_MAX, Segment, extracted, prose, titled

from jobrunner import PermanentFailure
from jobrunner.testing import run_stage

LESSON = [
    Segment(0.0, 4.0, "So today we replace the filter of a coffee machine."),
    Segment(4.2, 9.0, "First, unplug the machine and let it cool down."),
    Segment(9.1, 13.0, "Water may still be hot inside."),
    Segment(15.0, 20.0, "Then open the lid,"),
    Segment(20.1, 25.0, "And pull the old filter straight up."),
    Segment(27.5, 32.0, "Finally, press the new filter in until it clicks."),
]


def test_a_step_begins_where_the_speaker_turns_to_something_new() -> None:
    steps = extracted(LESSON)
    assert [step.title for step in steps] == [
        "Introduction",
        "Unplug the machine and let it cool down",
        "Open the lid",
        "Press the new filter in",
    ]
    assert [step.start_s for step in steps] == [0.0, 4.2, 15.0, 27.5]
    assert steps[2].text == "Then open the lid, and pull the old filter straight up."


def test_every_word_is_in_some_step_and_none_twice() -> None:
    said = " ".join(one.text for one in LESSON).lower()
    assert " ".join(step.text for step in extracted(LESSON)).lower() == said


def test_the_same_words_are_the_same_steps() -> None:
    assert extracted(LESSON) == extracted(LESSON)
    assert titled(LESSON) == "How to replace the filter of a coffee machine"
    assert titled(LESSON[1:]) == "How to: filter"


def test_a_long_film_gets_longer_steps_and_loses_nothing() -> None:
    """Six hours of short sentences with a pause after each."""
    film = [Segment(n * 5.0, n * 5.0 + 3.5, f"Sentence number {n}.") for n in range(4320)]
    steps = extracted(film)
    assert 10 < len(steps) <= STEPS_MAX
    assert sum(step.text.count("Sentence") for step in steps) == 4320
    assert steps[-1].end_s == film[-1].end_s
    assert all(before.end_s <= after.start_s for before, after in pairwise(steps))


@pytest.mark.parametrize("text", ["你好，今天我们更换过滤器。", "Привет всем", "…", "123", "a b"])
def test_any_script_makes_a_step(text: str) -> None:
    (step,) = extracted([Segment(0, 2, text)])
    assert step.title
    assert len(step.title) <= 91
    assert titled([Segment(0, 2, text)])


def test_pieces_become_sentences() -> None:
    pieces = ["It was cold,", "It was dark", "And I left.", "then London", "Appeared."]
    assert prose(pieces) == "It was cold, it was dark and I left. Then London Appeared."


def test_what_a_model_writes_is_held_to_the_shape() -> None:
    step = {"title": "Unplug", "text": "Pull it.", "start_s": -3, "end_s": 99}
    fenced = f"```json\n{json.dumps({'title': 'Filter', 'steps': [step]})}\n```"
    (found,) = read_written(fenced, 32.0).steps
    assert (found.start_s, found.end_s) == (0, 32.0)


@pytest.mark.parametrize(
    "answer",
    [
        "", "I am sorry", "<html></html>", "[]", '{"title": "x"}', '{"title": "", "steps": []}',
        '{"title": "x", "steps": [{"title": "y", "text": "z", "start_s": "nan", "end_s": 1}]}',
        '{"title": "x", "steps": [{"title": "y", "text": "", "start_s": 0, "end_s": 1}]}',
    ],
)  # fmt: skip
def test_anything_else_is_a_bad_answer(answer: str) -> None:
    with pytest.raises(PermanentFailure) as caught:
        read_written(answer, 10)
    assert caught.value.code == "BAD_ANSWER"


def test_doubtful_words_are_found_again_in_their_steps() -> None:
    film = [
        Segment(0, 9, "Um, unplug the machine. Then open the lid,", [1, 5]),
        Segment(9.1, 12, "And pull the filter straight up.", [2]),
    ]
    (first, second) = extracted(film)
    assert [first.text.split()[place] for place in first.doubtful] == ["unplug"]
    assert [second.text.split()[place] for place in second.doubtful] == ["open", "the"]


def drafted(content: bytes, **more: Any) -> Any:
    gone = {"transcript_uri": "/assets/t/content", "video_uri": "s3://gone/film.mp4"}
    return run_stage(
        draft,
        artifacts={**gone, **more},
        files={"transcript_uri": content},
    )


def test_a_film_that_is_gone_leaves_the_words() -> None:
    tried = drafted(msgspec.json.encode({"segments": LESSON}))
    assert tried.outcome == "done", tried.failure
    assert len(tried.artifacts["draft"]["steps"]) == 4
    assert any("without pictures" in line for line in tried.log)
    kept = json.loads(tried.files[tried.artifacts["draft_uri"]])
    assert kept == tried.artifacts["draft"]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"segments": [{"text": 1}]}', b"\xff\xfe"])
def test_a_transcript_in_no_known_form(content: bytes) -> None:
    tried = drafted(content)
    assert (tried.failure.code, tried.failure.retryable) == ("CORRUPT_INPUT", False)


def test_what_a_person_corrected_is_what_counts() -> None:
    corrected = {"segments": [{"start_s": 0, "end_s": 4, "text": "Unplug the machine."}]}
    tried = drafted(msgspec.json.encode({"segments": LESSON}), transcript=corrected)
    assert [step["text"] for step in tried.artifacts["draft"]["steps"]] == ["Unplug the machine."]


def test_a_warning_goes_on_with_the_words() -> None:
    tried = drafted(msgspec.json.encode({"segments": LESSON, "warnings": ["likely not English"]}))
    assert tried.artifacts["draft"]["warnings"] == ["likely not English"]
    assert "warnings" not in drafted(msgspec.json.encode({"segments": LESSON})).artifacts["draft"]
