"""What is heard, by the recogniser on this machine and by a provider."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jobrunner_howera import clip, confidence, film, transcribing
from jobrunner_howera.transcribing import transcribe

from jobrunner.testing import run_stage_live
from jobrunner.testing.providers import OpenAILike

pytestmark = pytest.mark.anyio


async def heard(content: bytes, settings: dict[str, Any] | None = None) -> Any:
    return await run_stage_live(
        transcribe,
        artifacts={"audio_uri": "/assets/a/content", "metrics": {"video_seconds": 44.0}},
        files={"audio_uri": content},
        settings=settings or {},
    )


def sound(folder: Path, *source: str) -> bytes:
    path = folder / "sound.flac"
    wanted = ("-ac", "1", "-ar", "16000", "-y", str(path))
    command = (film.program(), "-nostdin", "-loglevel", "error", *source, *wanted)
    subprocess.run(command, check=True)
    return path.read_bytes()


def silence(folder: Path, seconds: int) -> bytes:
    return sound(folder, "-f", "lavfi", "-i", f"anullsrc=r=16000:cl=mono:d={seconds}")


def transcript(tried: Any) -> Any:
    assert tried.outcome == "done", tried.failure
    return json.loads(tried.files[tried.artifacts["transcript_uri"]])


async def test_speech_becomes_words_with_their_times(tmp_path: Path) -> None:
    """H6: nine words in ten, offline; those that the recogniser is not sure of are marked."""
    tried = await heard(sound(tmp_path, "-i", clip.voice()))
    said = transcript(tried)
    assert clip.accuracy(" ".join(one["text"] for one in said["segments"])) > 0.9
    starts = [one["start_s"] for one in said["segments"]]
    assert starts == sorted(starts)
    assert said["segments"][-1]["end_s"] <= said["seconds"] + 1
    assert tried.artifacts["metrics"]["video_seconds"] == 44.0
    told = tried.artifacts["metrics"]
    assert told["words"] > 100
    assert (said["confidence"] > 0.8, said["warnings"]) == (True, [])
    marked = [one for one in said["segments"] if one.get("doubtful")]
    assert all(place < len(one["text"].split()) for one in marked for place in one["doubtful"])
    assert told["confidence"] == said["confidence"]
    assert 0 < told["doubtful_words"] == sum(len(one["doubtful"]) for one in marked) < 20
    assert "transcript" not in tried.artifacts


async def test_what_is_likely_not_english_is_warned_of(tmp_path: Path) -> None:
    """Speech that runs backwards is in no language that the recogniser knows."""
    backwards = sound(tmp_path, "-ss", "9", "-t", "11", "-i", clip.voice(), "-af", "areverse")
    tried = await heard(backwards, {"review_transcript": True})
    said = transcript(tried)
    assert said["confidence"] < 0.6
    (warning,) = said["warnings"]
    assert "likely not English" in warning
    assert any("likely not English" in line for line in tried.log)
    assert tried.artifacts["transcript"] == said


def test_a_word_that_is_heard_otherwise_is_not_sure() -> None:
    heard = [("First,", 0.9), ("plug", 0.8), ("the", 0.99), ("machine.", 0.7)]
    words = ["First", "unplug", "the", "machine"]
    assert confidence.matched(words, heard) == [0.9, 0.0, 0.99, 0.7]
    assert confidence.matched([], heard) == []


async def test_a_long_recording_is_heard_in_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut where it is quiet: hardly a word is lost at the seams, and the times go on."""
    monkeypatch.setattr(transcribing, "WINDOW_S", 15.0)
    monkeypatch.setattr(transcribing, "QUIET_S", 5.0)
    said = transcript(await heard(sound(tmp_path, "-i", clip.voice())))
    assert clip.accuracy(" ".join(one["text"] for one in said["segments"])) > 0.85
    starts = [one["start_s"] for one in said["segments"]]
    assert starts == sorted(starts)
    assert starts[-1] > 30


async def test_silence_is_told_apart(tmp_path: Path) -> None:
    tried = await heard(silence(tmp_path, 5))
    assert (tried.failure.code, tried.failure.retryable) == ("SPEECH_MISSING", False)


async def test_an_unknown_recogniser_is_named() -> None:
    tried = await heard(b"", {"transcriber": "parrot"})
    assert not tried.failure.retryable


async def test_a_provider_hears_it_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part under a key of its own, and its times laid end to end."""
    monkeypatch.setattr(transcribing, "WINDOW_S", 20.0)
    monkeypatch.setattr(transcribing, "QUIET_S", 5.0)
    monkeypatch.setattr(transcribing, "PART_S", 20.0)
    async with OpenAILike() as provider:
        settings = {"transcriber": "openai", "base_url": f"{provider.url}/v1"}
        sweep = sound(tmp_path, "-f", "lavfi", "-i", "aevalsrc=sin(9*t*t):d=50:s=16000")
        tried = await heard(sweep, settings)
        calls = provider.calls.of("transcriptions")
        provider.never_twice("transcriptions")
    segments = transcript(tried)["segments"]
    assert len(calls) >= 3
    assert len({call.key for call in calls}) == len(calls)
    assert [call.form["model"] for call in calls] == ["whisper-1"] * len(calls)
    assert len(segments) == 2 * len(calls)
    assert segments[2]["start_s"] >= 15
    assert len(tried.kept) == len(calls)


async def test_a_key_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    settings = {"transcriber": "openai", "key_env": "NO_SUCH_KEY_HERE"}
    tried = await heard(silence(tmp_path, 1), settings)
    assert (tried.failure.code, tried.failure.retryable) == ("PROVIDER_KEY_MISSING", True)
    assert "NO_SUCH_KEY_HERE" in tried.failure.message


def test_accuracy_counts_what_was_said() -> None:
    assert clip.accuracy(clip.SAID) == 1.0
    assert clip.accuracy("") == 0.0
    assert 0.98 < clip.accuracy(clip.SAID.replace("best", "worst", 1)) < 1.0


def test_the_clip_is_a_film_with_speech(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    clip.make(str(path))
    found = film.looked_into(str(path))
    assert (found.sound, found.pictures) == (True, True)
    assert found.seconds == pytest.approx(clip.SECONDS, abs=2)


@pytest.mark.parametrize(
    ("cores", "gibibytes", "there"), [(1, 8, 1), (2, 8, 1), (8, 64, 7), (8, 4, 4), (8, 0.25, 1)]
)
def test_recognisers_leave_a_core_and_half_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, cores: int, gibibytes: float, there: int
) -> None:
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": int(gibibytes * 1024**3) // 4096}
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    monkeypatch.setattr("jobrunner_howera.transcribing.CONTAINER", "/nowhere")
    assert transcribing._recognisers() == there
    assert transcribing.transcribe.resources == {"recogniser": 1}
