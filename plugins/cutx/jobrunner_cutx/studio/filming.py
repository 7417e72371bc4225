"""A short film: a scene a sentence, each with its caption, and a voice where there is one here."""

import os
import re
import subprocess
import tempfile
import textwrap
from typing import Any

from imageio_ffmpeg import get_ffmpeg_exe

from jobrunner import lent_environment
from jobrunner_cutx.studio import drawing, speaking

CAPTION_MAX = 110
SCENE_S = 2.6
QUIET = ("-nostdin", "-hide_banner", "-loglevel", "error", "-protocol_whitelist", "file,pipe")


def film(given: dict[str, Any], path: str) -> None:
    scenes = sentences(given)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        for number, sentence in enumerate(scenes):
            drawing.captioned(given, sentence, os.path.join(folder, f"scene-{number:02d}.png"))
        sound = _sound(scenes, folder)
        _cut(folder, len(scenes), sound, path)


def sentences(given: dict[str, Any]) -> list[str]:
    """The script, or what can be said of the product without one."""
    product = given.get("product") or {}
    name = str(product.get("name") or given.get("product_id") or "this")
    script = given.get("script") or given.get("prompt")
    if not script:
        features = [str(one) for one in product.get("features") or []][:3]
        told = features or [str(product.get("description") or "It does what it says.")]
        script = f"I have been using {name} for a week. {'. '.join(told)}. Honestly? Get {name}."
    told = re.split(r"(?<=[.!?])\s+", " ".join(str(script).split()))
    return [piece for one in told for piece in textwrap.wrap(one, CAPTION_MAX)] or [name]


def _sound(scenes: list[str], folder: str) -> str:
    path = os.path.join(folder, "voice.wav")
    try:
        speaking.speech({"text": " ".join(scenes)}, path)
    except speaking.NoVoice:
        return ""
    return path


def _cut(folder: str, scenes: int, sound: str, path: str) -> None:
    """Every scene comes nearer while it lasts. Without a voice there is silence: some players take
    a film without a sound track for a broken one."""
    seconds = max(scenes * SCENE_S, speaking.length_s(sound) + 0.5 if sound else 0)
    frames = int(seconds / scenes * 25)
    pictures = ("-framerate", "1", "-i", os.path.join(folder, "scene-%02d.png"))
    silence = ("-f", "lavfi", "-i", "anullsrc=r=44100:cl=mono")
    near = f"scale=1080:-2,zoompan=z='1+0.06*on/{frames}':d={frames}:s=540x960:fps=25"
    shape = near if _tall(folder) else near.replace("540x960", _size(folder))
    command = (
        get_ffmpeg_exe(), *QUIET, *pictures, *(("-i", sound) if sound else silence),
        "-vf", shape, "-t", f"{seconds:.2f}", "-c:v", "libx264", "-preset", "veryfast",
        "-pix_fmt", "yuv420p", "-c:a", "aac", "-movflags", "+faststart", "-y", path,
    )  # fmt: skip
    subprocess.run(command, check=True, env=lent_environment(*speaking.FOLDERS))


def _tall(folder: str) -> bool:
    return _size(folder) == "540x960"


def _size(folder: str) -> str:
    from PIL import Image

    with Image.open(os.path.join(folder, "scene-00.png")) as picture:
        return f"{picture.width // 2 * 2}x{picture.height // 2 * 2}"
