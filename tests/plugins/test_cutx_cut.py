"""What a provider made and only half of which comes: it is fetched again, and never sold."""

import io
import math
import subprocess
import wave
from pathlib import Path
from typing import Any

import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image

from jobrunner.testing.providers import Made, ReplicateLike
from tests.plugins.cutx_at_work import LAMP, VARIABLE, home

pytestmark = pytest.mark.anyio

ORDERS: dict[str, tuple[int, dict[str, Any]]] = {
    "static_ad": (3, {"product_id": "lamp-7", "product": LAMP}),
    "ugc_video": (40, {"product_id": "lamp-7", "script": "Hello."}),
    "tts": (2, {"text": "Hello."}),
}


def made(job_type: str, folder: Path) -> Made:
    if job_type == "static_ad":
        out = io.BytesIO()
        Image.effect_noise((200, 200), 60).save(out, "PNG")
        return Made(out.getvalue(), "image/png", "png")
    if job_type == "tts":
        out = io.BytesIO()
        with wave.open(out, "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            tone = (round(9000 * math.sin(n / 9)) for n in range(16_000))
            file.writeframes(b"".join(one.to_bytes(2, "little", signed=True) for one in tone))
        return Made(out.getvalue(), "audio/wav", "wav")
    path = folder / "film.mp4"
    source = ("-f", "lavfi", "-i", "testsrc=size=160x120:rate=10:duration=3", "-c:v", "libx264")
    quiet = (get_ffmpeg_exe(), "-nostdin", "-loglevel", "error")
    subprocess.run((*quiet, *source, "-movflags", "+faststart", "-y", str(path)), check=True)
    return Made(path.read_bytes(), "video/mp4", "mp4")


@pytest.mark.parametrize("job_type", ORDERS)
async def test_half_of_it_is_not_sold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job_type: str
) -> None:
    whole = made(job_type, tmp_path)
    half = Made(whole.content[: len(whole.content) // 2], whole.content_type, whole.ending)
    cost, params = ORDERS[job_type]
    given = [half, whole]
    async with ReplicateLike(produce=lambda _: given.pop(0)) as provider:
        monkeypatch.setenv(VARIABLE, provider.secret)
        async with home(tmp_path / "home", provider_url=f"{provider.url}/v1") as here:
            job_id = await here.order(job_type, **params)
            job = await here.at(job_id, "failed")
            assert job["failure_code"] == "DOWNLOAD_INCOMPLETE", job
            assert len(await here.attempts(job_id)) == 3
            await here.refunded(job_id, cost)
            assert await here.files(job_id) == []
            provider.never_twice("create")
            good = await here.order(job_type, **params)
            await here.at(good, "completed")
            [(_, content)] = await here.files(good)
            assert content == whole.content
