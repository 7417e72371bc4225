"""The place of a copy: a token that one alone has, and parts that are whole or refused."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import anyio
import pytest

from jobrunner import standing_by as standing
from jobrunner.actors.keeping.standby.copying import StandbyCopy, StandbyPlaces
from jobrunner.actors.keeping.standby.leases import Lease, TakenOver
from jobrunner.actors.keeping.standby.taking_over import StandbyFollower, TakingOver
from jobrunner.config.settings import Config, StandbySection, StoreSection
from jobrunner.core.keeping.standby import CopiedChange, CopiedLine, StandbyTerms, WholeCopy
from jobrunner.errors import Misconfigured, OutcomeUnknown, StorageError
from jobrunner.files.standby.copied_lines import CopiedLines
from jobrunner.files.standby.mirror import Mirror
from jobrunner.files.standby.places import FolderPlace
from jobrunner.files.standby.tokens import TokenPlace
from jobrunner.ports import SystemChildren, SystemClock, system_ports
from jobrunner.store.keeping.standby.naming import needed_files
from jobrunner.store.keeping.standby.tap import Pages, Tap
from jobrunner.store.migrations import migrate

pytestmark = pytest.mark.anyio
LEASE_S = 10.0
PAGE = 4096


class Steady:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


class Machines:
    def __init__(self, root: Path) -> None:
        self.root, self.clock = str(root / "copy"), Steady()

    def serving(self, name: str) -> Lease:
        return Lease(self.place(), name, LEASE_S, self.clock)

    def taking(self, name: str) -> TakingOver:
        return TakingOver(self.place(), name, self.clock)

    def place(self) -> TokenPlace:
        return TokenPlace(self.root)


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def test_a_lease_ends_by_itself_and_is_renewed_from_before_it_was_asked_for(
    machines: Machines,
) -> None:
    lease = machines.serving("a")
    lease.claim()
    assert lease.left_s == LEASE_S
    machines.clock.at += LEASE_S - 0.5
    assert (lease.is_nearly_over, lease.is_over) == (True, False)
    machines.clock.at += 0.5
    assert lease.left_s == 0
    lease.renew()
    assert lease.left_s == LEASE_S


def test_a_process_that_stands_still_is_ended_by_the_system(machines: Machines) -> None:
    alarms: list[float] = []
    place = TokenPlace(machines.root)
    lease = Lease(place, "a", LEASE_S, machines.clock, alarms.append)
    lease.claim()
    assert alarms == [LEASE_S]
    lease.stand_down()
    assert alarms == [LEASE_S], "not while somebody may be answered"
    machines.clock.at += LEASE_S - 1
    lease.stand_down()
    assert alarms == [LEASE_S, 0]
    lease.renew()
    lease.end()
    assert alarms == [LEASE_S, 0, LEASE_S, 0]


def test_who_was_taken_over_from_is_over_and_may_not_come_back(machines: Machines) -> None:
    lease, other = machines.serving("a"), machines.taking("b")
    lease.claim()
    assert other.take() == "taken"
    assert other.wait_s > LEASE_S, "the other one may believe for that long that it serves"
    with pytest.raises(TakenOver, match="held by b since epoch 2"):
        lease.renew()
    assert lease.is_over
    machines.clock.at += other.wait_s
    assert other.wait_s == 0
    with pytest.raises(Misconfigured, match="taken over"):
        machines.serving("a").claim()
    with pytest.raises(Misconfigured, match="taken"):
        machines.serving("b").claim()  # not before all is in place
    other.finish()
    machines.serving("b").claim()
    with pytest.raises(Misconfigured, match="taken over"):
        machines.serving("a").claim()


def test_who_said_goodbye_is_not_waited_for(machines: Machines) -> None:
    lease, other = machines.serving("a"), machines.taking("b")
    lease.claim()
    lease.free()
    assert lease.is_over
    other.take()
    assert other.wait_s == 0


def test_one_of_two_that_take_over_is_the_one(machines: Machines) -> None:
    first, second = machines.taking("b"), machines.taking("c")
    machines.serving("a").claim()
    first.take()
    second.take()
    with pytest.raises(StorageError, match="meanwhile"):
        first.finish()
    second.finish()
    machines.serving("c").claim()


def test_a_take_over_that_was_cut_off_is_begun_again(machines: Machines) -> None:
    machines.serving("a").claim()
    assert machines.taking("b").take() == "taken"
    again = machines.taking("b")
    assert again.take() == "again"
    again.finish()
    assert machines.taking("b").take() == "ours"


def test_a_renewal_whose_answer_was_lost_has_happened(machines: Machines) -> None:
    place, lease = machines.place(), machines.serving("a")
    lease.claim()
    token = place.find()
    assert token is not None
    new = token.renewed("held", 1000)
    assert place.swap(token, new)
    assert place.swap(token, new), "the server did it, and was asked again"
    assert not place.swap(token, token.renewed("held", 2000))


def test_an_absent_place_is_no_other_machine_and_none_is_made_in_its_stead(
    machines: Machines,
) -> None:
    lease = machines.serving("a")
    lease.claim()
    os.rename(machines.root, f"{machines.root}-unmounted")
    with pytest.raises(OSError, match="mount its disk"):
        lease.renew()
    assert not lease.lost
    with pytest.raises(Misconfigured, match="mount its disk"):
        machines.serving("a").claim(known=True)
    os.rename(f"{machines.root}-unmounted", machines.root)
    lease.renew()


def test_two_tokens_are_one_too_many(machines: Machines) -> None:
    machines.serving("a").claim()
    place = TokenPlace(machines.root)
    (place.folder / "held.00000001.000000000009.1000.z").touch()
    with pytest.raises(StorageError, match="2 tokens"):
        place.find()


class Pending:
    """Something to copy, always."""

    since: float | None = 100.0
    bytes = 0

    def take(self) -> Pages:
        return Pages(1, PAGE, 1, {1: b"x" * PAGE}, 100.0, 0)

    def copied(self) -> None:
        self.since = None


async def test_who_finds_its_line_cleared_away_learns_who_did_it(machines: Machines) -> None:
    """It stood still meanwhile, and its next change has no folder any more."""
    lost: list[OutcomeUnknown] = []
    lines, tap, terms = CopiedLines(machines.root), Pending(), StandbyTerms(machines.root, 1, 10)
    places = StandbyPlaces(machines.serving("a"), lines, cast(Tap, tap))
    parts = SystemClock(), machines.clock, SystemChildren()
    copy = StandbyCopy(terms, places, *parts, lambda *said, **fields: None, 10**6)
    await copy.claim(known=False)
    assert await copy.kept_up() == ""
    machines.taking("b").take()
    lines.clear_before(CopiedLine(2, 1), 0)
    copy.end_with(lost.append)
    tap.since = 0.0
    with anyio.fail_after(120):
        assert "taken over" in await copy.kept_up()
    assert [type(one) for one in lost] == [TakenOver]
    await copy.close()


class Copy:
    """A line of a base and three changes, made by hand: in each, all rows have one more."""

    def __init__(self, folder: Path) -> None:
        self.root, self.folder = folder / "copy", folder
        self.lines, self.line = CopiedLines(str(self.root)), CopiedLine(1, 1)
        self.lines.begin(1)
        self._source = folder / "source.db"
        self._write(0)
        before = self._source.read_bytes()
        base = WholeCopy(number=0, as_of=0, size=0, sha256="")
        (folder / "taken.db").write_bytes(before)
        self.lines.put_base(self.line, base, str(folder / "taken.db"))
        for number in (1, 2, 3):
            self._write(number)
            self._put(number, self._source.read_bytes())

    def follower(self) -> StandbyFollower:
        place = FolderPlace(str(self.root))
        return StandbyFollower(place, str(self.folder / "b.db"), str(self.folder / "files"))

    def change(self, number: int) -> Path:
        return self.lines.change_place(self.line, number)

    def value(self, follower: StandbyFollower) -> int:
        with closing(sqlite3.connect(f"file:{follower.place}?immutable=1", uri=True)) as db:
            return int(db.execute("SELECT n FROM t").fetchone()[0])

    def _write(self, number: int) -> None:
        with closing(sqlite3.connect(self._source, isolation_level=None)) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (n)")
            db.execute("DELETE FROM t")
            db.execute("INSERT INTO t VALUES (?)", (number,))

    def _put(self, number: int, data: bytes) -> None:
        pages = len(data) // PAGE
        numbers = tuple(range(1, pages + 1))
        change = CopiedChange(
            number=number, as_of=number, page_bytes=PAGE, pages=pages, numbers=numbers
        )
        self.lines.put_change(self.line, change, data)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_a_whole_copy_is_followed_to_its_end(copy: Copy) -> None:
    follower = copy.follower()
    found = follower.follow()
    assert found.reached is not None
    assert (found.reached.number, found.changes, found.fault) == (3, 3, "")
    assert copy.value(follower) == 3
    assert follower.follow().changes == 0


@pytest.mark.parametrize("spoil", ["cut", "empty", "flipped", "otherwise", "gone"])
def test_a_change_that_is_not_what_it_was_stops_the_follower_before_it(
    copy: Copy, spoil: str
) -> None:
    place = copy.change(2)
    whole = place.read_bytes()
    match spoil:
        case "cut":
            place.write_bytes(whole[: len(whole) // 2])
        case "empty":
            place.write_bytes(b"")
        case "otherwise":
            said = whole.replace(b'"as_of":2', b'"as_of":7')
            assert said != whole
            place.write_bytes(said)
        case "flipped":
            place.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        case _:
            place.unlink()
    follower = copy.follower()
    found = follower.follow()
    assert found.reached is not None
    assert found.reached.number == 1
    assert found.fault
    assert copy.value(follower) == 1
    place.write_bytes(whole)
    assert follower.follow().fault == ""
    assert copy.value(follower) == 3


@pytest.mark.parametrize("part", [".db", ".json"])
def test_a_base_that_is_not_what_it_was_is_not_begun_with(copy: Copy, part: str) -> None:
    place = copy.lines.base_place(copy.line, 0).with_suffix(part)
    place.write_bytes(place.read_bytes()[:-9])
    found = copy.follower().follow()
    assert found.reached is None
    assert "damaged" in found.fault


def test_a_line_without_a_whole_base_is_not_taken_for_the_newest(copy: Copy) -> None:
    later = copy.lines.begin(2)
    place = copy.lines.base_place(later, 0)
    place.with_suffix(".draft").write_bytes(b"half of it")
    place.write_bytes(b"all of it, but nobody said so yet")
    follower = copy.follower()
    assert follower.follow().fault == ""
    assert copy.value(follower) == 3


def test_what_was_half_written_has_no_name(copy: Copy) -> None:
    copy.change(4).with_suffix(".change.draft").write_bytes(b"half")
    assert copy.follower().follow().fault == ""


def test_another_life_begins_anew_with_its_base(copy: Copy) -> None:
    """Between two lives something may have happened that nobody has copied."""
    follower = copy.follower()
    follower.follow()
    later = copy.lines.begin(1)
    taken = copy.folder / "taken.db"
    taken.write_bytes(Path(follower.place).read_bytes())
    copy.lines.put_base(later, WholeCopy(number=0, as_of=9, size=0, sha256=""), str(taken))
    copy.lines.clear_before(later, 0)
    found = follower.follow()
    assert found.reached is not None
    assert (found.reached.line, found.reached.number) == (later, 0)
    assert copy.lines.lines() == [later]


def test_a_follower_that_was_left_behind_takes_the_later_base(copy: Copy) -> None:
    follower = copy.follower()
    whole = [copy.change(number).read_bytes() for number in (2, 3)]
    for number in (2, 3):
        copy.change(number).unlink()
    follower.follow()
    taken = copy.folder / "taken.db"
    taken.write_bytes((copy.folder / "source.db").read_bytes())
    copy.lines.put_base(copy.line, WholeCopy(number=3, as_of=3, size=0, sha256=""), str(taken))
    found = follower.follow()
    assert whole
    assert found.reached is not None
    assert (found.reached.number, found.fault) == (3, "")
    assert copy.value(follower) == 3


async def test_a_second_process_on_the_same_file_leaves_the_token_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not give back what it never had: the one that serves would end."""
    monkeypatch.setattr(standing, "end_after", lambda seconds: None)
    config = Config(
        store=StoreSection(path=str(tmp_path / "jobs.db")),
        standby=StandbySection(path=str(tmp_path / "copy")),
    )
    place, ports = TokenPlace(config.standby.path), system_ports()
    for _ in range(2):
        async with standing.standing_by(config, ports, lambda *said, **told: None, {}):
            with pytest.raises(Misconfigured, match=f"in use by process {os.getpid()}"):
                async with standing.standing_by(config, ports, lambda *said, **told: None, {}):
                    raise AssertionError("two have the token")
            found = place.find()
            assert found is not None
            assert found.standing == "held"


ASSET = """
    INSERT INTO assets (id, uid, user_id, asset_type, url, storage_path, sha256, created_at)
    VALUES (:id, :uid, 'ada', 'file', '/x', 'ada/' || :uid || '/x.txt', '', 1)
"""
THERE = "INSERT INTO objects (asset, path, key, size, stored_at) VALUES (2, 'x', 'y', 1, 1)"


def test_files_that_are_needed_outlast_the_disk_that_they_are_copied_from(tmp_path: Path) -> None:
    """It was not mounted, for a moment or for good: now they are here alone."""
    path, copied = tmp_path / "jobs.db", tmp_path / "copied"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        migrate(db)
        for number, uid in enumerate(("here", "stored"), 1):
            db.execute(ASSET, {"id": number, "uid": uid})
        db.execute(THERE)
    for uid in ("here", "stored", "deleted"):
        place = copied / "ada" / uid / "x.txt"
        place.parent.mkdir(parents=True)
        place.touch()
    with needed_files(str(path)) as needed:
        Mirror(str(tmp_path / "unmounted"), str(copied)).clear(needed, lambda: True)
    left = [one.relative_to(copied).as_posix() for one in copied.rglob("x.txt")]
    assert left == ["ada/here/x.txt"]
