"""Who gets which seat on a cluster, what a stage is short of there, and what is refused at once."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobrunner import Done, Stage, stage
from jobrunner.actors.features.turns.rates import Rates
from jobrunner.actors.slots import Slots, WorkLimits
from jobrunner.cluster import performing
from jobrunner.cluster.connection import Present, SchedulerLost
from jobrunner.cluster.door import STRANGERS_MAX, ClusterDoor
from jobrunner.cluster.engine import Cluster
from jobrunner.cluster.frame_line import FrameLine, LineLost
from jobrunner.cluster.frames import CallFrame, HaltFrame
from jobrunner.cluster.local import workers_of
from jobrunner.cluster.seats import Seat, Seats, Skills
from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import ClusterSection, Config, WorkflowSettings
from jobrunner.errors import Misconfigured
from jobrunner.files.lent import PiecedFile, digest_of, last_number
from jobrunner.loading import load_definitions
from jobrunner.ports import SystemClock, system_ports
from jobrunner.stages import Registry
from jobrunner.stages.away import AwayStage, away_form
from jobrunner.work import for_elsewhere
from tests.http.serving import opened
from tests.work.plugin import jobrunner_far

pytestmark = pytest.mark.anyio


async def paint(ctx: Any) -> Done:
    return Done()


HAS = Skills("3.11", "jobrunner 1", {"far.paint": "far 1"})


def painting(**needs: int) -> AwayStage:
    return away_form(Stage("far.paint", paint, resources=needs))


def seated(*seats: Seat, brought: str = "far 1") -> Seats:
    found = Seats({"far.paint": brought})
    found.trouble = ""
    for seat in seats:
        found.meet(seat)
    return found


def test_a_label_is_looked_for_and_spared() -> None:
    seats = seated(Seat("a", "a", {"GPU": 1}, HAS), Seat("b", "b", {}, HAS))
    plain, special = seats.take("one", painting()), seats.take("two", painting(GPU=1))
    assert plain is not None
    assert special is not None
    assert (plain.address, special.address) == ("b", "a")
    assert (
        seats.lack(painting(GPU=1)) == "a free worker of the cluster (1 in all could run its stage)"
    )
    assert seats.lack(painting(GPU=2)) == "a worker of the cluster that has 2 of GPU"
    assert seats.counted() == {"free": 0, "taken": 2, "clearing": 0, "unfit": 0}


@pytest.mark.parametrize(
    ("seat", "lack"),
    [
        (
            Seat("a", "a", {}, HAS, unfit="has 2 threads"),
            "a worker of the cluster; a has 2 threads",
        ),
        (
            Seat("a", "a", {}, Skills("", "", {})),
            "a worker of the cluster that has stage far.paint",
        ),
        (
            Seat("a", "a", {}, Skills("", "", {"far.paint": "far 2"})),
            "a worker of the cluster that has far 1 (it has far 2)",
        ),
        (
            Seat("a", "a", {}, HAS, job_id="x", is_clearing=True),
            "a free worker of the cluster (1 in all could run its stage)",
        ),
        (Seat("a", "a", {}, HAS), ""),
    ],
)
def test_what_a_stage_is_short_of_is_named(seat: Seat, lack: str) -> None:
    assert seated(seat).lack(painting()) == lack


def test_a_job_that_sits_elsewhere_by_now_has_left_its_first_seat() -> None:
    """What clears there is nobody's, so giving a seat back means the one where the job sits."""
    seats = seated(Seat("a", "a", {}, HAS), Seat("b", "b", {}, HAS))
    first = seats.take("one", painting())
    assert first is not None
    first.left()
    second = seats.take("one", painting())
    assert second is not None
    assert (first.address, second.address, seats.of("one")) == ("a", "b", second)
    assert seats.counted() == {"free": 0, "taken": 1, "clearing": 1, "unfit": 0}


def test_a_cluster_that_is_not_there_has_no_seat() -> None:
    seats = seated(Seat("a", "a", {}, HAS))
    seats.trouble = "tls://far.invalid does not answer"
    assert seats.lack(painting()) == "the cluster: tls://far.invalid does not answer"


def test_slots_here_and_seats_there_are_not_counted_together() -> None:
    class TwoSeats:
        """A cluster with two seats."""

        def __init__(self) -> None:
            self.held: set[str] = set()

        @property
        def free(self) -> int:
            return 2 - len(self.held)

        def lack(self, stage: AwayStage) -> str:
            return "" if self.free else "a free worker"

        def take(self, job_id: str, stage: AwayStage) -> None:
            self.held.add(job_id)

        def give_back(self, job_id: str) -> None:
            self.held.discard(job_id)

    cluster: Any = TwoSeats()
    slots = Slots(WorkLimits(active_jobs=1), {}, Rates(SystemClock()), cluster)
    here, there = Stage("far.paint", paint), painting(GPU=4)
    slots.take("a", "ada", here)
    assert slots.lack("b", "ada", here) == "a free slot in this service (1 in all)"
    for job in ("b", "c"):
        assert slots.lack(job, "ada", there) == ""
        slots.take(job, "ada", there)
    assert (slots.free, slots.lack("d", "ada", there)) == (0, "a free worker")
    assert slots.lend("b", [here, there]) == frozenset(), "a seat is no slot of this service"
    slots.give_back("a")
    slots.begin("b", here)
    assert cluster.held == {"c"}, "the job that goes on here has left its seat"


def test_a_binding_names_the_declared_stage() -> None:
    settings = WorkflowSettings(stages={"*": "dask", "counting": "far.count", "showing": "remote"})
    registry = Registry(lambda workflow: laid_over(workflow, settings))
    for one in (jobrunner_far.sing, jobrunner_far.count, jobrunner_far.show):
        registry.add(one)
    registry.add(jobrunner_far.definition)
    definition = registry.current("far")
    assert definition is not None, registry.refused
    bound = [definition.stage_of(state, "song") for state in ("singing", "counting", "showing")]
    assert bound == ["far.sing@dask", "far.count", "external"]
    stage = registry.stage("far.sing@dask")
    assert isinstance(stage, AwayStage)
    assert stage.plain_name == "far.sing"


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ({}, "far.sing@dask"),
        ({"*": "here"}, "far.sing"),
        ({"*": "dask", "singing": "here"}, "far.sing"),
        ({"*": "remote", "singing": "dask"}, "far.sing@dask"),
        ({"singing": "remote"}, "external"),
        ({"singing.song": "far.sing"}, "far.sing@dask"),
        ({"singing": "far.count"}, "far.count"),
    ],
)
def test_a_stage_says_itself_where_it_runs(
    monkeypatch: pytest.MonkeyPatch, bound: dict[str, str], expected: str
) -> None:
    """Unless the operator does. Its labels are its worker's, and on a worker it runs there."""
    said = {"where": "dask", "resources": {"GPU": 8}}
    singing = Stage("far.sing", jobrunner_far.sing.run, **said)  # type: ignore[arg-type]

    def load(self: Registry, enabled: Any = ()) -> None:
        for one in (singing, jobrunner_far.count, jobrunner_far.show, jobrunner_far.definition):
            self.add(one)

    monkeypatch.setattr(Registry, "load", load)
    config = Config(workflows={"far": WorkflowSettings(stages=bound)}, resources={"GPU": 8})
    definition = load_definitions(config).current("far")
    assert definition is not None
    assert definition.stage_of("singing", "song") == expected
    registry = load_definitions(for_elsewhere(config), at_home=True)
    assert registry.current("far").stage_of("singing", "song") in ("far.sing", "far.count")  # type: ignore[union-attr]
    stage = load_definitions(replace(config, workflows={})).stage("far.sing@dask")
    assert isinstance(stage, AwayStage)
    assert (stage.labels, stage.resources) == ({"GPU": 8}, {})


def test_the_decorator_says_where_a_stage_runs() -> None:
    assert stage("far.paint", run="dask", resources={"GPU": 1})(paint).where == "dask"
    assert stage("far.paint")(paint).where == "here"


async def test_a_stage_that_says_so_waits_where_no_cluster_is_set(tmp_path: Path) -> None:
    """A start names it, and so does ``explain`` for each of its jobs."""
    goes_away = "far.sing".__eq__
    registry = Registry(lambda workflow: laid_over(workflow, WorkflowSettings(), goes_away))
    for one in (jobrunner_far.sing, jobrunner_far.count, jobrunner_far.show):
        registry.add(one)
    registry.add(jobrunner_far.definition)
    async with opened(tmp_path, registry=registry) as house:
        told = [line for line in house.logged if line["event"] == "cluster.unset"]
        assert [line["stages"] for line in told] == [["far.sing@dask"]]
        job = await house.ada.submit("far")
        said = (await house.admin.get(f"/jobs/{job['id']}/explain")).json
        assert said["waits_for"].startswith("a cluster, and none is set"), said


def test_a_stage_that_asks_for_more_than_this_machine_has_may_run_there() -> None:
    scarce = Stage("far.sing", jobrunner_far.sing.run, resources={"GPU": 8})
    for place, refused in (("dask", False), ("far.sing", True)):
        settings = WorkflowSettings(stages={"singing": place})
        registry = Registry(lambda workflow, s=settings: laid_over(workflow, s), resources={})  # type: ignore[misc]
        for one in (scarce, jobrunner_far.count, jobrunner_far.show):
            registry.add(one)
        registry.add(jobrunner_far.definition)
        assert (registry.current("far") is None) == refused, registry.refused


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        (ClusterSection("tcp://10.0.0.1:8786"), "set [cluster] ca, cert and key"),
        (ClusterSection("tls://10.0.0.1:8786", ca="ca.pem"), "go together"),
    ],
)
def test_an_open_way_beyond_this_machine_is_refused(settings: ClusterSection, cure: str) -> None:
    pytest.importorskip("distributed")
    from jobrunner.cluster.connection import security_of

    with pytest.raises(Misconfigured, match=cure.replace("[", r"\[")):
        security_of(settings)
    security_of(ClusterSection("tcp://10.0.0.1:8786", security="none"))


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from jobrunner.cluster.connection import security_of

    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(Misconfigured, match=r"pip install 'jobrunner\[dask\]'"):
        security_of(ClusterSection("tcp://127.0.0.1:8786"))


@pytest.mark.parametrize(("text", "workers"), [("local", 2), ("local:4", 4)])
def test_a_local_cluster_has_so_many_workers(text: str, workers: int) -> None:
    assert workers_of(text) == workers


@pytest.mark.parametrize("text", ["", "far", "local:0", "local:x"])
def test_another_cluster_is_not_started(text: str) -> None:
    with pytest.raises(Misconfigured, match="--cluster"):
        workers_of(text)


async def test_the_door_opens_once_and_to_a_token_alone() -> None:
    door = ClusterDoor(5)
    await door.listen("127.0.0.1", 0, None)
    try:
        awaited = door.expect("jr_right")
        for token in ("jr_wrong", "jr_right", "jr_right"):
            reader, writer = await asyncio.open_connection(door.host, door.port)
            line = FrameLine(reader, writer, 5)
            await line.say(CallFrame(token))
            if awaited.done() or token == "jr_wrong":
                with pytest.raises(LineLost):
                    await line.hear()
                await line.close()
            else:
                mine = await awaited
                first = line
        await mine.say(HaltFrame())
        assert await first.hear() == HaltFrame()
        await first.close()
        await mine.close()
    finally:
        await door.close()


async def test_who_does_not_answer_holds_up_nobody() -> None:
    """One worker hangs, and another one is met and given work. It is met when it answers."""
    pytest.importorskip("distributed")
    logged: list[str] = []
    section = ClusterSection(scheduler="tcp://127.0.0.1:1")
    cluster = Cluster(section, {}, system_ports(), 0, lambda event, **told: logged.append(event))
    connection: Any = Hanging()
    cluster._connection, cluster._seats.trouble = connection, ""
    async with anyio.create_task_group() as group:
        cluster._group = group
        await cluster._look(connection)
        await until(lambda: cluster.seats()["free"] == 1)
        connection.fault = SchedulerLost("in time")
        connection.hangs.set()
        await until(lambda: not cluster._meeting)
        assert logged == ["cluster.joined", "cluster.unfit"]
        connection.fault = None
        await cluster._look(connection)
        await until(lambda: cluster.seats()["free"] == 2)


class Hanging:
    """A scheduler of two workers, of which the first one hangs."""

    def __init__(self) -> None:
        self.hangs = asyncio.Event()
        self.fault: Exception | None = None

    async def present(self) -> list[Present]:
        return [Present(name, name, {}, 1, True) for name in ("hangs", "works")]

    async def skills(self, address: str) -> Skills:
        if address == "hangs":
            await self.hangs.wait()
            if self.fault is not None:
                raise self.fault
        return Skills(performing.python(), performing.own_version(), {})

    async def under_way(self, address: str) -> list[str]:
        return []


async def test_strangers_make_the_door_keep_little() -> None:
    """A large first word is not waited for, and of very many who say nothing the first one goes."""
    door = ClusterDoor(3600)
    await door.listen("127.0.0.1", 0, None)
    lines: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    try:
        for _ in range(STRANGERS_MAX + 1):
            lines.append(await asyncio.open_connection(door.host, door.port))
            await until(lambda: len(door._strangers) == min(len(lines), STRANGERS_MAX))
        assert await rest(lines[0][0]) == b""
        awaited = door.expect("jr_right")
        lines.append(await asyncio.open_connection(door.host, door.port))
        await FrameLine(*lines[-1], 5).say(CallFrame("jr_right"))
        await (await awaited).close()
        lines.append(await asyncio.open_connection(door.host, door.port))
        lines[-1][1].write((1 << 20).to_bytes(4, "big"))
        assert await rest(lines[-1][0]) == b""
    finally:
        await door.close()
        for reader, writer in lines:
            assert await rest(reader) == b"", "who is left goes with the door"
            writer.close()
            await writer.wait_closed()
    await until(lambda: not door._strangers)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes before the other side ends the line."""
    async with asyncio.timeout(120):
        return await reader.read()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def test_a_file_in_pieces_is_whole_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(b"la la")
    sha256 = digest_of(str(tmp_path), "whole")
    for _ in range(2):  # coming a second time changes nothing
        part = PiecedFile(str(tmp_path), "ada/job/song-3.txt")
        part.write(b"la ")
        part.write(b"la")
        part.finish(sha256)
    part = PiecedFile(str(tmp_path), "ada/job/other.txt")
    part.write(b"la")
    with pytest.raises(ValueError, match="did not come as it was sent"):
        part.finish(sha256)
    part = PiecedFile(str(tmp_path), "ada/job/song-3.txt")
    part.write(b"other")
    (tmp_path / "other").write_bytes(b"other")
    with pytest.raises(FileExistsError):
        part.finish(digest_of(str(tmp_path), "other"))
    assert [one.name for one in (tmp_path / "ada" / "job").iterdir()] == ["song-3.txt"]
    assert last_number(str(tmp_path), "ada/job") == 3
    assert last_number(str(tmp_path), "ada/none") == 0
