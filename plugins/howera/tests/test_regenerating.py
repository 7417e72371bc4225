"""One part is written anew; the rest stays as it was."""

import io
import subprocess
from typing import Any

import pytest
from jobrunner_howera import film, rewriting
from jobrunner_howera.regenerating import regenerate, selected
from PIL import Image

from jobrunner import PermanentFailure
from jobrunner.testing import run_stage

STEPS = [
    {"id": "step-1", "title": "Unplug", "text": "Um, you need to unplug it. Wait. It cools down."},
    {"id": "step-2", "title": "Open", "text": "Open the lid"},
]
DRAFT = {"title": "Filter", "steps": STEPS, "note": "kept as it is"}


def renewed(selection: Any, instruction: str | None, draft: Any = DRAFT) -> Any:
    request = {"task_id": "run-1", "selection": selection, "instruction": instruction}
    return run_stage(regenerate, artifacts={"draft": draft, "regenerate_request": request})


def text_of(instruction: str | None, selection: Any = "step-1") -> str:
    tried = renewed(selection, instruction)
    assert tried.outcome == "done", tried.failure
    return str(tried.artifacts["draft"]["steps"][0]["text"])


def test_only_the_step_that_was_meant_changes() -> None:
    """H28"""
    fresh = renewed("step-1", "shorter").artifacts["draft"]
    assert fresh["steps"][1] == STEPS[1]
    assert (fresh["title"], fresh["note"]) == ("Filter", "kept as it is")
    assert fresh["steps"][0]["title"] == "Unplug"


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        (None, "You need to unplug it. Wait. It cools down."),
        ("as orders, please", "Unplug it. Wait. It cools down."),
        ("shorter", "Unplug it. Wait. It cools down."),
        ("a list", "- You need to unplug it.\n- Wait.\n- It cools down."),
    ],
)
def test_what_can_be_done_without_understanding(wish: str | None, text: str) -> None:
    assert text_of(wish) == text


@pytest.mark.parametrize("wish", ["in the style of a pirate", "translate to German", "?"])
def test_a_wish_that_is_not_understood_changes_nothing_and_says_so(wish: str) -> None:
    tried = renewed("step-1", wish)
    assert tried.outcome == "done", tried.failure
    assert "draft" not in tried.artifacts
    assert (tried.result["understood"], tried.result["steps"]) == (False, [])
    assert "shorter" in tried.result["message"]
    assert any("not understood" in line for line in tried.log)


def test_a_wish_that_is_understood_says_whether_it_changed_anything() -> None:
    first = renewed("step-1", "shorter")
    assert (first.result["understood"], first.result["changed"]) == (True, True)
    second = renewed("step-1", "shorter", first.artifacts["draft"])
    assert (second.result["understood"], second.result["changed"]) == (True, False)


@pytest.mark.parametrize("wish", ["shorter", "as orders", "a list", "tidy", None])
@pytest.mark.parametrize(
    "text",
    [
        "Stop. Then you need to unplug it. Wait! It cools down, um, slowly. Done?",
        "Um. You know. Well.",
        "One two. Three four five six seven. Eight.",
        "You should.",
        "Just.",
    ],
)
def test_no_wish_leaves_a_sentence_out(wish: str | None, text: str) -> None:
    draft = {"steps": [{"id": "step-1", "text": text}]}
    made = renewed("step-1", wish, draft).artifacts["draft"]["steps"][0]["text"]
    assert len(rewriting._sentences(made)) == len(rewriting._sentences(text)), made


def test_shorter_is_shorter_by_words_that_say_nothing() -> None:
    text = "So you need to go ahead and press it in order to start. I mean, it is really hot."
    made = renewed("step-1", "shorter", {"steps": [{"id": "step-1", "text": text}]})
    assert made.artifacts["draft"]["steps"][0]["text"] == "Press it to start. It is hot."


def test_a_list_can_become_a_text_again_and_is_no_list_of_lists() -> None:
    listed = renewed("step-1", "a list").artifacts["draft"]
    again = renewed("step-1", "a list", listed).artifacts["draft"]
    assert again == listed
    plain = renewed("step-1", "as text", listed).artifacts["draft"]["steps"][0]["text"]
    assert plain == text_of(None)


def test_a_title_is_taken_as_it_is_said() -> None:
    fresh = renewed("step-2", 'title: "Open it up"').artifacts["draft"]
    assert fresh["steps"][1] == {**STEPS[1], "title": "Open it up"}


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (None, ["step-1", "step-2"]), ("all", ["step-1", "step-2"]), ("step-2", ["step-2"]),
        (2, ["step-2"]), ("1", ["step-1"]), (["step-1"], ["step-1"]),
        ({"block_id": "step-2"}, ["step-2"]), ({"steps": ["step-1", 2]}, ["step-1", "step-2"]),
    ],
)  # fmt: skip
def test_a_part_can_be_named_in_several_ways(selection: Any, ids: list[str]) -> None:
    assert [step["id"] for step in selected(DRAFT, selection)] == ids


@pytest.mark.parametrize("selection", ["step-9", 0, ["x"], [], {}, {"range": [1, 2]}, [[]], [{}]])
def test_what_means_no_step_is_refused_and_renews_nothing(selection: Any) -> None:
    with pytest.raises(PermanentFailure) as caught:
        selected(DRAFT, selection)
    assert caught.value.code == "SELECTION_UNKNOWN"
    assert "step-1, step-2" in caught.value.detail


def test_a_draft_that_is_a_text_is_one_part() -> None:
    assert renewed(None, "a list", "One. Two.").artifacts["draft"] == "- One.\n- Two."


def test_no_draft_nothing_to_renew() -> None:
    assert renewed(None, None, None).failure.code == "DRAFT_MISSING"


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Four seconds of red, then four of blue."""
    path = tmp_path_factory.mktemp("film") / "lesson.mp4"
    source = "color=red:s=160x120:d=4:r=5[a];color=blue:s=160x120:d=4:r=5[b];[a][b]concat"
    quiet = (film.program(), "-nostdin", "-loglevel", "error", "-filter_complex", source)
    subprocess.run((*quiet, "-c:v", "libx264", "-pix_fmt", "yuv420p", str(path)), check=True)
    return path.read_bytes()


def pictured(lesson: bytes, selection: Any, moment_s: float, instruction: str | None = None) -> Any:
    request = {"selection": selection, "instruction": instruction, "moment_s": moment_s}
    address = "/assets/film/content"
    return run_stage(
        regenerate,
        artifacts={"draft": DRAFT, "regenerate_request": request, "video_uri": address},
        assets={"film": ("video", lesson)},
    )


@pytest.mark.parametrize(("moment_s", "channel"), [(1.0, 0), (6.5, 2)])
def test_a_step_shows_another_moment(lesson: bytes, moment_s: float, channel: int) -> None:
    tried = pictured(lesson, "step-2", moment_s)
    assert tried.outcome == "done", tried.failure
    before, step = tried.artifacts["draft"]["steps"]
    assert before == STEPS[0]
    assert step == {**STEPS[1], "image": step["image"], "image_s": moment_s}
    with Image.open(io.BytesIO(tried.files[step["image"]])) as picture:
        colour = picture.convert("RGB").getpixel((80, 60))
    assert isinstance(colour, tuple)
    assert max(range(3), key=lambda one: colour[one]) == channel


def test_another_moment_and_other_words_are_one_request(lesson: bytes) -> None:
    step = pictured(lesson, 1, 1.0, "shorter").artifacts["draft"]["steps"][0]
    assert (step["text"], step["image_s"]) == ("Unplug it. Wait. It cools down.", 1.0)


@pytest.mark.parametrize(
    ("selection", "moment_s", "code"),
    [("step-1", 99.0, "PICTURE_MISSING"), (None, 1.0, "SELECTION_UNKNOWN")],
)
def test_a_moment_that_cannot_be_shown(
    lesson: bytes, selection: Any, moment_s: float, code: str
) -> None:
    tried = pictured(lesson, selection, moment_s)
    assert (tried.failure.code, tried.failure.retryable) == (code, False)
    assert "draft" not in tried.artifacts


def test_words_that_are_new_are_not_doubtful() -> None:
    steps = [{**STEPS[0], "doubtful": [1]}, {**STEPS[1], "doubtful": [0]}]
    fresh = renewed("step-1", "shorter", {"steps": steps}).artifacts["draft"]["steps"]
    assert "doubtful" not in fresh[0]
    assert fresh[1]["doubtful"] == [0]
