"""What a prompt may not contain, how many pictures a job has, and what a submission may say."""

import resource
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from jobrunner_image_generation import definition
from jobrunner_image_generation.guards import one_picture, prompt_allowed
from jobrunner_image_generation.params import ImageParams

CPU_S = 5
BLOCKED = ["nude", "gore", "straw man", "0day"]


def asked(prompt: str, words: list[str] | None = None, **options: Any) -> Any:
    settings = {"blocked_words": BLOCKED if words is None else words}
    params = {"prompt": prompt, "options": options}
    return SimpleNamespace(settings=settings, params=params)


@pytest.mark.parametrize(
    "prompt",
    [
        "a nude",
        "A NUDE.",
        "(nude)",
        "n u d e",
        "n.u-d_e",
        "nud3",
        "ｎｕｄｅ",
        "nu\u200bde",
        "nu\u00adde",
        "núdë",
        "n\u0338u\u0338d\u0338e\u0338",
        "nu\u0501\u0435",
        "g0r3",
        "a straw  man",
        "a straw-man",
        "oday exploit",
    ],
)
def test_a_disguise_is_seen_through(prompt: str) -> None:
    """I15: case, width, invisible signs, accents, strokes, other alphabets, digits, gaps."""
    refused = prompt_allowed(asked(prompt))
    assert refused is not None
    assert (refused.code, refused.status) == ("PROMPT_BLOCKED", 422)
    assert "nude" not in refused.detail


@pytest.mark.parametrize(
    "prompt",
    ["@$$@$$in", "an a$sas$in", "a s s @ s s i n", "a$s$s$a$s$s$i$n", "assassin$", "@assassin"],
)
def test_signs_may_be_letters_or_gaps(prompt: str) -> None:
    assert prompt_allowed(asked(prompt, ["assassin"])) is not None


@pytest.mark.parametrize("prompt", ["$500 in cash", "me@example.org", "@$", "@$$@$$", "a$$et"])
def test_signs_alone_are_no_words(prompt: str) -> None:
    assert prompt_allowed(asked(prompt, ["assassin"])) is None


COSTLY = """
from types import SimpleNamespace
from jobrunner_image_generation.guards import prompt_allowed
words = ["assassin", "asst", "sassas", "a s s a s s", "nsfw"]
for prompt in ({prompt}, {prompt} + "x", "x" + {prompt}):
    asked = SimpleNamespace(settings={{"blocked_words": words}}, params={{"prompt": prompt}})
    assert prompt_allowed(asked) is None
"""


@pytest.mark.parametrize(
    "prompt", ["'@$' * 1999", "'@' + '$' * 3998", "'$ ' * 1999", "'a ' * 1999", "'a' + '-' * 3998"]
)
def test_no_prompt_takes_long_to_read(prompt: str) -> None:
    """It is read where everybody waits. The kernel counts what it costs."""
    done = subprocess.run(
        (sys.executable, "-c", COSTLY.format(prompt=prompt)),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize(
    "prompt",
    [
        "a lighthouse",
        "denuded hills",
        "gorey details",
        "straw, and a man",
        "Nudel",
        "",
        "дом у моря",
    ],
)
def test_an_innocent_word_is_let_through(prompt: str) -> None:
    assert prompt_allowed(asked(prompt)) is None


def test_an_option_in_words_is_read_too() -> None:
    assert prompt_allowed(asked("a hill", style="nude")) is not None
    assert prompt_allowed(asked("a hill", style="plain", steps=4, hd=True)) is None


def test_the_list_is_the_operators() -> None:
    assert prompt_allowed(asked("nude", ["hill"])) is None
    assert prompt_allowed(asked("a hill", ["hill"])) is not None
    assert prompt_allowed(asked("nude", [])) is None
    assert prompt_allowed(asked("...", ["...", " "])) is None


@pytest.mark.parametrize(
    ("pictures", "code"), [(0, "RESULT_MISSING"), (1, ""), (2, "TOO_MANY_PICTURES")]
)
def test_a_job_has_one_picture(pictures: int, code: str) -> None:
    """I24 I26"""
    known = {"image": pictures} if pictures else {"text": 1}
    said = one_picture(SimpleNamespace(snapshot=SimpleNamespace(asset_types=known), target="done"))  # type: ignore[arg-type]
    assert (said.code if said else "") == code


def test_every_guard_is_known_to_the_declaration() -> None:
    assert set(definition.functions) == {"prompt_allowed", "one_picture", "same_minute"}


@pytest.mark.parametrize("name", ["n", "prompt", "size", "model", "num_outputs", "account"])
def test_an_option_cannot_say_what_has_a_parameter(name: str) -> None:
    """Neither a second prompt behind the guard, nor more pictures than were paid for."""
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert({"prompt": "a hill", "options": {name: 4}}, ImageParams)


def test_options_go_through() -> None:
    params = msgspec.convert({"prompt": "a hill", "options": {"steps": 4}}, ImageParams)
    assert params.options == {"steps": 4}


@pytest.mark.parametrize("size", ["9x9", "0100x100", "100", "100x100\n", "-5x20", "10000x10"])
def test_a_size_is_two_numbers(size: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"prompt": "a hill", "size": size}, ImageParams)
