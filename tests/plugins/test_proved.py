"""The six plugins with their own stages, whatever happens: nothing is wrong with them, and nothing
is found to be."""

import io
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jobrunner_howera import film
from PIL import Image

from jobrunner import Reply
from jobrunner.testing import Exchange, Proof, prove
from jobrunner.testing.providers import OpenAILike, ReplicateLike

ROOT = Path(__file__).resolve().parents[2]
SHEET = "\n".join(["region,sales,year", *(f"r{n % 4},{n * 3},20{n % 7:02}" for n in range(60))])
SMALL = "018f0000-0000-7000-8000-000000000001"
PRODUCT = {"name": "Lumen Desk Lamp", "description": "A lamp for people who read late."}
PAGE = b"""<html><head><meta property="og:title" content="Lumen Desk Lamp"></head></html>"""


def picture() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "teal").save(made, "PNG")
    return made.getvalue()


def page(asked: Exchange) -> Reply:
    return Reply(200, {"content-type": "text/html"}, PAGE, asked.url)


STEPS = (
    '{"title": "Two sentences", "steps": [{"title": "First", "text": "Say it.", "start_s": 0,'
    ' "end_s": 1.5}, {"title": "Second", "text": "Say it again.", "start_s": 1.5, "end_s": 3}]}'
)
ABOUT = {"product_id": "lamp-7", "product": PRODUCT}
GIVEN: dict[str, dict[str, Any]] = {
    "hello": {},
    "image_generation": {
        "http": OpenAILike(),
        "settings": {"provider": "openai", "base_url": "https://pictures.invalid/v1"},
        "params": {"generation": [{"prompt": "a lighthouse", "size": "64x64"}]},
    },
    "cutx": {
        "http": {"https://maker.invalid": ReplicateLike(), "https://lamps.invalid": page},
        "settings": {"provider_url": "https://maker.invalid/v1"},
        "params": {
            "copy": [ABOUT],
            "static_ad": [ABOUT],
            "scrape": [{"url": "https://lamps.invalid/7"}],
            "ugc_video": [ABOUT],
            "tts": [{"text": "a lamp"}],
        },
        "never_done": ("cutx.ugc_video", "cutx.tts"),  # the provider makes pictures
    },
    "asset_pattern": {
        "assets": {SMALL: ("upload", picture())},
        "params": {
            "generation": [{"inputs": [SMALL], "sizes": [4]}],
            "export": [{}, {"inputs": [SMALL]}],
        },
    },
    "howera": {
        "http": OpenAILike(reply=lambda asked: STEPS),
        "settings": {
            "transcriber": "openai",
            "transcribe_model": "one",
            "writer": "openai",
            "model": "two",
            "base_url": "https://words.invalid/v1",
        },
        "fields": {"confirm-upload": [{}], "export": [{"format": "PDF"}, {"format": "MD_ZIP"}]},
    },
    "ss": {
        "uploads": {"input": SHEET.encode()},
        "params": {"ss": [{"requirement": "Sum the sales by region"}]},
        "fields": {"confirm": [{"confirmed": True, "answers": {"target": "sales"}}]},
    },
}


SHORT = {name: range(6) for name in GIVEN} | {"ss": range(8)}


def film_of(folder: Path) -> bytes:
    """Three seconds of a tone, and a picture that moves."""
    path = folder / "short.mp4"
    picture = ("-f", "lavfi", "-i", "testsrc=size=160x120:rate=5:duration=3")
    tone = ("-f", "lavfi", "-i", "sine=frequency=440:duration=3")
    kinds = ("-c:v", "libx264", "-c:a", "aac")
    command = (film.program(), "-nostdin", "-loglevel", "error", *picture, *tone, *kinds)
    subprocess.run([*command, str(path)], check=True)
    return path.read_bytes()


def brought(name: str) -> list[Any]:
    """The stages and sources of a plugin, by its entry points."""
    text = (ROOT / "plugins" / name / "pyproject.toml").read_text()
    groups = tomllib.loads(text)["project"]["entry-points"]
    places = [
        place
        for kind in ("stages", "sources")
        for place in groups.get(f"jobrunner.{kind}", {}).values()
    ]
    return [
        getattr(import_module(module), named)
        for module, _, named in (place.partition(":") for place in places)
    ]


def proved(name: str, seeds: range, folder: Path, whole: bool = True) -> Proof:
    given = dict(GIVEN[name])
    if name == "howera":
        given["uploads"] = {"video": film_of(folder)}
    definition = import_module(f"jobrunner_{name}").definition
    return prove(definition, brought(name), seeds=seeds, whole=whole, **given)


@pytest.mark.parametrize("name", GIVEN)
def test_its_stages_do_nothing_that_stages_may_not(name: str, tmp_path: Path) -> None:
    """A few seeds; of the last stages of the longest way there may be none."""
    assert proved(name, SHORT[name], tmp_path, whole=name != "howera").seeds


@pytest.mark.long
@pytest.mark.parametrize("name", GIVEN)
def test_nor_under_many_seeds(name: str, tmp_path: Path) -> None:
    assert proved(name, range(1000), tmp_path).lives > 1000
