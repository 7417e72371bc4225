"""The built-in provider: its book, what it makes, and how it behaves when things go wrong."""

import asyncio
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import sys
import wave
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp import web
from imageio_ffmpeg import count_frames_and_secs, get_ffmpeg_exe
from jobrunner_cutx.studio import desk, drawing, filming, lettering, speaking
from jobrunner_cutx.studio.orders import KEPT_MAX, Book, Order
from PIL import Image

from jobrunner import Hosting, Opened

pytestmark = pytest.mark.anyio

LAMP = {
    "name": "Lumen Desk Lamp",
    "description": "A lamp for people who read late.",
    "features": ["Warm light that dims by touch", "Folds flat"],
    "price": "59 EUR",
}
AD = {"type": "static_ad", "product_id": "lamp-7", "product": LAMP}


def order(name: str, **fields: Any) -> Order:
    return Order(name.ljust(26, "x"), {"type": "tts"}, "http://hook", f"key-{name}", 1.0, **fields)


# ------------------------------------------------------------ the book


def test_the_book_remembers(tmp_path: Path) -> None:
    book = Book(str(tmp_path))
    first = book.put(order("a"))
    book.change(first.id, status="succeeded", output="output.png")
    again = Book(str(tmp_path))
    assert again.known("key-a") == book[first.id]
    assert again.known("") is None
    assert again.find("nobody") is None


def test_the_book_after_a_bad_end(tmp_path: Path) -> None:
    """What is half, or belongs to nobody, goes; what is whole stays."""
    book = Book(str(tmp_path))
    kept = book.put(order("kept"))
    Path(book.cleared(kept.id) + ".png").write_bytes(b"half")
    (tmp_path / "half.json").write_bytes(b'{"id": "ha')
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "other.new").write_bytes(b"draft")
    (tmp_path / "nobodys").mkdir()
    (tmp_path / "nobodys" / "output.png").write_bytes(b"x")
    assert [one.id for one in Book(str(tmp_path))] == [kept.id]
    assert {path.name for path in tmp_path.iterdir()} == {kept.id, f"{kept.id}.json"}


def test_the_book_forgets_what_is_over(tmp_path: Path) -> None:
    """After a day, and nothing that is still to be done."""
    book = Book(str(tmp_path))
    open_one = book.put(order("open"))
    over = book.put(order("over", status="succeeded", told=True))
    Path(book.cleared(over.id) + ".png").write_bytes(b"x")
    new = book.put(order("new"))
    assert [one.id for one in book] == sorted([open_one.id, new.id])
    assert book.known("key-over") is None
    assert not (tmp_path / over.id).exists()
    assert KEPT_MAX > 100


def test_a_full_disk_takes_no_orders(tmp_path: Path) -> None:
    book = Book(str(tmp_path / "book"))
    kept = book.put(order("kept"))
    (tmp_path / "book").rename(tmp_path / "away")
    with pytest.raises(OSError, match="No such file"):
        book.put(order("new"))
    assert book.known("key-new") is None
    with pytest.raises(OSError, match="No such file"):
        book.change(kept.id, status="processing")
    assert book[kept.id].status == "processing"


# ------------------------------------------------------------ what it makes


@pytest.mark.parametrize("style", drawing.LOOKS)
@pytest.mark.parametrize("ratio", drawing.SIZES)
def test_an_ad_is_a_picture(tmp_path: Path, style: str, ratio: str) -> None:
    given = {**AD, "style": style, "aspect_ratio": ratio}
    for name in ("one", "two"):
        drawing.advertisement(given, str(tmp_path / f"{name}.png"))
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    with Image.open(tmp_path / "one.png") as picture:
        picture.load()
        assert picture.size == drawing.SIZES[ratio]
        assert "built-in" in picture.info["Software"]
        assert len(picture.convert("RGB").getcolors(2**24) or []) > 500


STRANGE: dict[str, dict[str, Any]] = {
    "nothing known": {},
    "another alphabet": {"product": {"name": "日本語の商品", "price": "¥5,000"}},
    "the longest": {"product": {"name": "N" * 128, "description": "d " * 2500, "price": "9" * 64}},
    "blank": {"product": {"name": " ", "description": "", "features": [], "price": " "}},
    "controls": {"product": {"name": "a\0b\x1b[31m\u202e", "description": "\n\n"}},
    "signs": {"product_id": "🙂🙂", "prompt": "Ça c'est l'été ≠ \ud800 ok"},
    "nulls": {"product": None, "style": None, "aspect_ratio": None, "prompt": None},
}


@pytest.mark.parametrize("what", STRANGE)
def test_whatever_is_ordered_can_be_drawn(tmp_path: Path, what: str) -> None:
    given = {"type": "static_ad", "product_id": "x", **STRANGE[what]}
    drawing.advertisement(given, str(tmp_path / "ad.png"))
    with Image.open(tmp_path / "ad.png") as picture:
        picture.verify()


def test_letters_that_the_font_lacks() -> None:
    assert lettering.drawable("plain text") == "plain text"
    assert lettering.drawable("Café")[:3] == "Caf"
    assert len(lettering.drawable("Café")) == 4
    assert lettering.drawable("🙂", "otherwise") == "otherwise"
    assert lettering.drawable(" a \n b ") == "a b"


def test_lines_stay_in_their_room() -> None:
    for text in ("word " * 100, "W" * 500, "a", ""):
        found = lettering.lines(text, 300, 20, 3)
        assert len(found) <= 3
        assert all(lettering.font(20).getlength(line) <= 300 for line in found)
        cut, size = lettering.fitting(text, 300, 40)
        assert lettering.font(size).getlength(cut) <= 300


@pytest.mark.parametrize(("ratio", "size"), [("9:16", "540x960"), ("1:1", "540x540")])
def test_a_film_is_a_film(tmp_path: Path, ratio: str, size: str) -> None:
    path = str(tmp_path / "film.mp4")
    given = {"product_id": "x", "script": "This is it. I like it.", "aspect_ratio": ratio}
    filming.film(given, path)
    frames, seconds = count_frames_and_secs(path)
    assert frames > 50
    assert seconds >= 2 * filming.SCENE_S - 0.1
    about = subprocess.run(
        [get_ffmpeg_exe(), "-hide_banner", "-i", path], capture_output=True, check=False
    ).stderr.decode()
    assert "Video: h264" in about
    assert size in about
    assert "Audio: aac" in about
    assert list(tmp_path.iterdir()) == [Path(path)]


def test_scenes_say_the_whole_script() -> None:
    script = "One. " + "word " * 400 + "end! Last?"
    scenes = filming.sentences({"script": script})
    assert " ".join(scenes).split() == script.split()
    assert all(len(scene) <= filming.CAPTION_MAX for scene in scenes)
    assert filming.sentences({"script": " ", "product_id": "lamp"}) == ["lamp"]
    assert "lamp" in " ".join(filming.sentences({"product_id": "lamp"}))


@pytest.mark.skipif(not shutil.which("flite"), reason="there is no voice on this machine")
def test_speech_is_speech(tmp_path: Path) -> None:
    path = str(tmp_path / "speech.wav")
    speaking.speech({"text": '-h Hello; $(this) is "a" lamp. Café.', "voice": "../x"}, path)
    assert speaking.length_s(path) > 1
    with wave.open(path) as file:
        assert any(file.readframes(file.getnframes()))


def test_without_a_voice_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a film is made all the same."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(speaking.NoVoice, match="install flite"):
        speaking.speech({"text": "Hello"}, str(tmp_path / "speech.wav"))
    filming.film({"product_id": "x", "script": "Hello."}, str(tmp_path / "film.mp4"))
    assert count_frames_and_secs(str(tmp_path / "film.mp4"))[0] > 25


def worked(place: Path, given: bytes, keep: bool = True) -> tuple[int, bytes, bytes]:
    """The bench, as it is used; without ``keep`` whoever asked is gone at once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jobrunner_cutx.studio.workbench", str(place)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdin.write(given + b"\n")
        process.stdin.flush()
        if not keep:
            process.stdin.close()
        return process.wait(60), process.stdout.read(), process.stderr.read()


def test_the_bench_makes_one_thing(tmp_path: Path) -> None:
    code, told, _ = worked(tmp_path / "output", json.dumps(AD).encode())
    assert (code, json.loads(told)) == (0, {"output": "output.png"})


@pytest.mark.parametrize("given", [b'{"type": "other"}', b"{}", b"[", b""])
def test_the_bench_says_why_not(tmp_path: Path, given: bytes) -> None:
    code, told, trace = worked(tmp_path / "output", given)
    assert (code, told) == (1, b"")
    assert trace


def test_the_bench_ends_when_nobody_wants_it(tmp_path: Path) -> None:
    """With ffmpeg, and whatever else it has started."""
    film = {"type": "ugc_video", "product_id": "x", "script": "A sentence. " * 60}
    code, told, _ = worked(tmp_path / "output", json.dumps(film).encode(), keep=False)
    assert (code, told) == (-9, b"")
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _about(path, tmp_path)]


def _about(path: Path, folder: Path) -> bool:
    try:
        return os.fsencode(folder) in path.read_bytes()
    except OSError:
        return False


# ------------------------------------------------------------ the desk


class Studio:
    def __init__(self, opened: Opened, session: aiohttp.ClientSession, heard: list[Any]) -> None:
        self.url = opened.settings["provider_url"]
        self.secret = opened.secrets["replicate"][0]
        self.heard = heard
        self._session = session

    async def ask(self, method: str, path: str, key: str = "", **more: Any) -> tuple[int, Any]:
        headers = {"Idempotency-Key": key} if key else {}
        async with self._session.request(
            method, self.url + path, headers=headers, **more
        ) as answer:
            raw = await answer.read()
            return answer.status, json.loads(raw) if answer.content_type.endswith("json") else raw

    async def fetch(self, url: str) -> tuple[int, bytes]:
        async with self._session.get(url) as answer:
            return answer.status, await answer.read()

    async def order(self, key: str = "", hook: str = "", **given: Any) -> Any:
        body = {"input": {**AD, **given}} | ({"webhook": hook} if hook else {})
        status, told = await self.ask("POST", "/predictions", key, json=body)
        assert status == 201, told
        return told

    async def over(self, order_id: str) -> Any:
        with anyio.fail_after(60):
            while True:
                _, told = await self.ask("GET", f"/predictions/{order_id}")
                if told["status"] not in ("starting", "processing"):
                    return told
                await anyio.sleep(0.02)


@asynccontextmanager
async def studio(folder: Path, statuses: tuple[int, ...] = ()) -> AsyncIterator[Studio]:
    """Opened as the service opens it; ``statuses`` are what its webhooks are answered, the last
    one for good."""
    heard: list[Any] = []
    left = list(statuses or (200,))

    async def hear(request: web.Request) -> web.Response:
        heard.append((request.path, dict(request.headers), await request.read()))
        return web.Response(status=left.pop(0) if len(left) > 1 else left[0])

    application = web.Application()
    application.router.add_post("/{tail:.*}", hear)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    here = f"http://127.0.0.1:{runner.addresses[0][1]}"
    folder.mkdir(exist_ok=True)
    hosting = Hosting({}, str(folder), "https://public.example", lambda line: None, here)
    try:
        async with desk.studio.open(hosting) as opened, aiohttp.ClientSession() as session:
            yield Studio(opened, session, heard)
    finally:
        await runner.cleanup()


async def until(holds: Callable[[], Any]) -> None:
    for _ in range(6000):
        if holds():
            return
        await anyio.sleep(0.01)
    raise AssertionError("it did not come to that in a minute")


async def test_another_provider_leaves_it_shut(tmp_path: Path) -> None:
    hosting = Hosting({"provider_url": "http://other"}, str(tmp_path), "", lambda line: None)
    async with desk.studio.open(hosting) as opened:
        assert opened == Opened()
    assert list(tmp_path.iterdir()) == []


async def test_an_order_under_one_key_is_one(tmp_path: Path) -> None:
    async with studio(tmp_path) as here:
        first, second = await here.order("k"), await here.order("k")
        assert first["id"] == second["id"]
        assert (await here.order())["id"] != (await here.order())["id"]
        told = await here.over(first["id"])
        assert told["status"] == "succeeded"
        status, content = await here.fetch(told["output"])
        assert status == 200
        assert content[:4] == b"\x89PNG"


async def test_its_webhook_is_signed(tmp_path: Path) -> None:
    """As Standard Webhooks says, and to the service, wherever the order says it should go."""
    async with studio(tmp_path) as here:
        told = await here.order(hook="http://169.254.169.254/latest/webhooks/other")
        await until(lambda: here.heard)
        path, headers, body = here.heard[0]
        assert path == "/webhooks/replicate"
        assert json.loads(body)["id"] == told["id"]
        said = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = b64decode(here.secret.removeprefix("whsec_"))
        mac = b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{mac}"


async def test_a_receiver_that_is_down_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "TELLS", (0.0, 0.01, 0.01, 0.01))
    async with studio(tmp_path, (503, 500, 200)) as here:
        await here.order(hook="x")
        await until(lambda: len(here.heard) == 3)
        ids = {headers["webhook-id"] for _, headers, _ in here.heard}
        assert len(ids) == 1
    async with studio(tmp_path, (500,)) as here:
        await here.order(hook="x")
        await until(lambda: len(here.heard) == 4)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"input": 1}', b'{"input": "x"}', b'{"input": null}', b"{"]
)
async def test_orders_that_are_none(tmp_path: Path, body: bytes) -> None:
    async with studio(tmp_path) as here:
        assert (await here.ask("POST", "/predictions", data=body))[0] == 422
        assert (await here.ask("GET", "/predictions/nobody"))[0] == 404
        assert (await here.ask("POST", "/predictions/nobody/cancel"))[0] == 404
        assert (await here.ask("POST", "/predictions", data=b"x" * 300_000))[0] in (413, 422)


async def test_what_it_cannot_make_fails(tmp_path: Path) -> None:
    async with studio(tmp_path) as here:
        told = await here.over((await here.order(type="dance"))["id"])
        assert told["status"] == "failed"
        assert "dance" in told["error"]
        assert told["output"] is None


async def test_a_cancelled_order_is_put_down(tmp_path: Path) -> None:
    """At work, and in line: it does not come back, and its processes are gone."""
    async with studio(tmp_path) as here:
        film = {"type": "ugc_video", "script": "A long sentence that goes on and on. " * 60}
        orders = [(await here.order(**film))["id"] for _ in range(4)]
        await until(lambda: any(_about(path, tmp_path) for path in _processes()))
        for order_id in orders:
            _, told = await here.ask("POST", f"/predictions/{order_id}/cancel")
            assert told["status"] == "canceled"
        await until(lambda: not any(_about(path, tmp_path) for path in _processes()))
        ad = await here.over((await here.order())["id"])
        assert ad["status"] == "succeeded"
        for order_id in orders:
            assert (await here.over(order_id))["status"] == "canceled"


def _processes() -> list[Path]:
    return list(Path("/proc").glob("[0-9]*/cmdline"))


async def test_it_goes_on_after_its_death(tmp_path: Path) -> None:
    """With the same secret, on the same port, and nothing is left running between."""
    film = {"type": "ugc_video", "script": "A long sentence that goes on and on. " * 30}
    async with studio(tmp_path) as here:
        orders = [(await here.order(str(number), hook="x", **film))["id"] for number in range(3)]
        secret, url = here.secret, here.url
        await until(lambda: any(_about(path, tmp_path) for path in _processes()))
    assert not any(_about(path, tmp_path) for path in _processes())
    for path in (tmp_path / "orders").glob("*.json"):
        told = json.loads(path.read_bytes())
        path.write_text(json.dumps(told | {"given": AD}))
    async with studio(tmp_path) as here:
        assert (here.secret, here.url) == (secret, url)
        for order_id in orders:
            assert (await here.over(order_id))["status"] == "succeeded"
        await until(lambda: len(here.heard) == 3)
        assert (await here.order("0", **film))["id"] == orders[0]


async def test_its_port_is_taken(tmp_path: Path) -> None:
    async with studio(tmp_path) as here:
        port = int((tmp_path / "port").read_text())
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    async with taken, studio(tmp_path) as here:
        assert str(port) not in here.url
        assert (await here.over((await here.order())["id"]))["status"] == "succeeded"


@pytest.mark.parametrize("text", ["", "x", "999999", "whsec_x"])
@pytest.mark.parametrize("name", ["port", "webhook.secret"])
async def test_damaged_notes_are_made_anew(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    async with studio(tmp_path) as here:
        assert len(here.secret) == desk.SECRET_LENGTH
        assert (await here.over((await here.order())["id"]))["status"] == "succeeded"


async def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """An order that cannot be written down is not taken, and the next one is."""
    async with studio(tmp_path) as here:
        (tmp_path / "orders").rename(tmp_path / "away")
        status, told = await here.ask("POST", "/predictions", json={"input": AD})
        assert status == 503, told
        (tmp_path / "away").rename(tmp_path / "orders")
        assert (await here.over((await here.order())["id"]))["status"] == "succeeded"
