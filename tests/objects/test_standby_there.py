"""A copy in a store of objects: its token is one machine's, its parts are whole or refused, and
another machine takes over from it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.actors.keeping.standby.taking_over import StandbyFollower
from jobrunner.config.settings import Config, StandbySection
from jobrunner.core.keeping.standby import CopiedChange, CopiedLine, WholeCopy
from jobrunner.errors import Misconfigured
from jobrunner.files.objects import bucket
from jobrunner.files.standby.places import ShelfPlace
from jobrunner.files.standby.shelf import StandbyShelf
from jobrunner.files.standby.tokens import TokenPlace
from jobrunner.standing_by import copy_place
from tests.files import test_standby as folders
from tests.objects.buckets import BUCKET, When, Wire, keys_in, section
from tests.objects.test_steps import SETTINGS
from tests.whole.test_standby import kill_again_and_again

pytestmark = pytest.mark.anyio
MIB = 1024**2
RULES = [
    (folders.test_a_lease_ends_by_itself_and_is_renewed_from_before_it_was_asked_for, False),
    (folders.test_who_was_taken_over_from_is_over_and_may_not_come_back, True),
    (folders.test_who_said_goodbye_is_not_waited_for, True),
    (folders.test_one_of_two_that_take_over_is_the_one, True),
    (folders.test_a_take_over_that_was_cut_off_is_begun_again, False),
    (folders.test_a_renewal_whose_answer_was_lost_has_happened, False),
]


def place_of(wire: Wire, prefix: str, **more: Any) -> ShelfPlace:
    named = f"s3://{BUCKET}/{prefix}"
    config = Config(objects=section(wire, **more), standby=StandbySection(path=named, lease=25))
    found = copy_place(config, named, os.environ)
    assert isinstance(found, ShelfPlace)
    assert found.root == f"{named}/"
    return found


class FarMachines(folders.Machines):
    """Each with a line of its own to the store."""

    def __init__(self, folder: Path, wire: Wire) -> None:
        super().__init__(folder)
        self._wire, self._prefix = wire, folder.name

    def place(self) -> TokenPlace:
        return place_of(self._wire, self._prefix).tokens


@pytest.mark.parametrize(("rule", "loses"), RULES)
async def test_one_machine_has_the_token(
    wire: Wire, tmp_path: Path, rule: Callable[[folders.Machines], None], loses: bool
) -> None:
    """Also where every answer to a write is lost once, and the library sends it again."""
    lost = {"put": 0}

    def fault(step: str, number: int) -> When | None:
        lost["put"] += step == "put"
        return "after" if step == "put" and lost["put"] % 2 else None

    if loses:
        wire.fault = fault
    try:
        await anyio.to_thread.run_sync(rule, FarMachines(tmp_path, wire))
    finally:
        wire.fault = lambda step, number: None


async def test_a_store_that_ignores_conditions_is_refused(wire: Wire, tmp_path: Path) -> None:
    """Two might serve there."""
    machines = FarMachines(tmp_path, wire)
    wire.deaf_to = ("If-Match", "If-None-Match")
    try:
        with pytest.raises(Misconfigured, match="conditional writes"):
            await anyio.to_thread.run_sync(machines.serving("a").claim)
    finally:
        wire.deaf_to = ()
    assert not [key for key in await keys_in(wire) if key.startswith(f"{tmp_path.name}/")]


def written(place: ShelfPlace, folder: Path, line: CopiedLine, number: int, data: bytes) -> None:
    (folder / "taken.db").write_bytes(data)
    base = WholeCopy(number=number, as_of=number, size=0, sha256="")
    place.lines.put_base(line, base, str(folder / "taken.db"))


def changed(place: ShelfPlace, line: CopiedLine, number: int, page: bytes) -> None:
    change = CopiedChange(number=number, as_of=number, page_bytes=len(page), pages=1, numbers=(1,))
    place.lines.put_change(line, change, page)


async def test_a_copy_there_is_followed_to_its_end(wire: Wire, tmp_path: Path) -> None:
    """Up to a change that was spoilt; then from the base of another life, which clears the line."""
    await anyio.to_thread.run_sync(followed, place_of(wire, tmp_path.name), tmp_path)


def followed(place: ShelfPlace, folder: Path) -> None:
    follower = StandbyFollower(place, str(folder / "b.db"), str(folder / "files"))
    first = place.lines.begin(1)
    assert follower.follow().reached is None
    written(place, folder, first, 0, b"0" * 512)
    for number in (1, 2, 3):
        changed(place, first, number, str(number).encode() * 512)
    shelf: StandbyShelf = place.lines._shelf
    key = f"lines/{first.name}/000000000002.change"
    whole, _ = shelf.read(key)
    shelf.write(key, whole[:-1])
    found = follower.follow()
    assert found.reached is not None
    assert (found.reached.number, "damaged" in found.fault) == (1, True)
    shelf.write(key, whole)
    found = follower.follow()
    assert found.reached is not None
    assert (found.reached.number, found.fault) == (3, "")
    assert Path(follower.place).read_bytes() == b"3" * 512
    later = place.lines.begin(1)
    assert later.life == first.life + 1
    assert place.lines.newest() == first, "the one before is whole until this one has a base"
    written(place, folder, later, 3, b"4" * 512)
    changed(place, later, 4, b"5" * 512)
    written(place, folder, later, 4, b"5" * 512)
    place.lines.clear_before(later, 4)
    assert place.lines.lines() == [later]
    assert (place.lines.bases(later), place.lines.changes(later)) == ([4], [])
    found = follower.follow()
    assert found.reached is not None
    assert (found.reached.line, found.reached.number) == (later, 4)
    assert Path(follower.place).read_bytes() == b"5" * 512


async def test_files_and_keys_go_there_and_back(wire: Wire, tmp_path: Path) -> None:
    here, there, own = tmp_path / "here", tmp_path / "there", tmp_path / "own"
    (here / "ada").mkdir(parents=True)
    own.mkdir()
    (here / "ada" / "song.txt").write_bytes(b"la la")
    (own / "admin.token").write_bytes(b"secret")

    def go() -> None:
        place = place_of(wire, tmp_path.name)
        assert place.there(str(here)).bring(["ada/song.txt", "ada/none"]) == ["ada/none"]
        place.send_beside(str(own))
        back = place.back(str(there))
        assert back.bring(["ada/song.txt", "ada/none"]) == ["ada/none"]
        place.fetch_beside(str(there))
        (here / "ada" / "song.txt").unlink()
        needed = {"ada": {"ada/song.txt"}}
        place.there(str(here)).clear(lambda folder: needed.get(folder, set()), lambda: True)
        assert place.back(str(own)).bring(["ada/song.txt"]) == [], "its disk may just be away"
        (own / "ada" / "song.txt").unlink()
        place.there(str(here)).clear(lambda folder: set(), lambda: True)
        assert place.back(str(own)).bring(["ada/song.txt"]) == ["ada/song.txt"]

    await anyio.to_thread.run_sync(go)
    assert (there / "ada" / "song.txt").read_bytes() == b"la la"
    assert (there / "admin.token").read_bytes() == b"secret"


async def test_a_large_file_goes_there_in_parts_as_set(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In as few as are set, and in no more than a store takes; all of it comes back."""
    here, back = tmp_path / "here", tmp_path / "back"
    here.mkdir()
    data = os.urandom(12 * MIB)
    (here / "a").write_bytes(data)
    (here / "b").write_bytes(data)
    place = place_of(wire, tmp_path.name, part=8 * MIB)
    wire.steps.clear()
    await anyio.to_thread.run_sync(place.there(str(here)).bring, ["a"])
    assert wire.steps.count("part") == 2
    monkeypatch.setattr(bucket, "PARTS_MAX", 1)
    await anyio.to_thread.run_sync(place.there(str(here)).bring, ["b"])
    assert wire.steps.count("part") == 3
    await anyio.to_thread.run_sync(place.back(str(back)).bring, ["a", "b"])
    assert [(back / name).read_bytes() == data for name in "ab"] == [True, True]


async def again_and_again(folder: Path, wire: Wire, kills: int, lags: tuple[float, ...]) -> Any:
    @contextmanager
    def away() -> Iterator[None]:
        wire.down = True
        yield
        wire.down = False

    more = SETTINGS.format(bucket="", url=wire.url, place="disk", keep_deleted=0)
    go = partial(kill_again_and_again, folder, kills, lags, more=more)
    return await go(copy=f"s3://{BUCKET}/{folder.name}/", away=away())


@pytest.mark.long
@pytest.mark.parametrize(("kills", "lags"), [(2, (1.0, 0)), (20, (1.0, 0, 0.2))])
async def test_another_machine_takes_over_from_a_store(
    wire: Wire, tmp_path: Path, kills: int, lags: tuple[float, ...]
) -> None:
    await again_and_again(tmp_path, wire, kills, lags)
