"""The 384 ordered pairs of statuses of the five lifecycles, each asked for over HTTP by an admin
who owns the jobs, with every stage outside; and who else may take the pairs that are declared.

All jobs stand in one service. First everything is asked that should change nothing, and the whole
file is read before and after; then everything that should move.
"""

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest
from msgspec import Struct

from tests.http.serving import Caller, House, Said, opened
from tests.standing import LIFECYCLES, Outcome, every_pair, pairs
from tests.whole.placing import at_once, outside, stand

pytestmark = pytest.mark.anyio

QUIET = ("refused", "stays")
PAIRS = list(every_pair())
EXPIRED = [("cutx", "expired", target) for target in LIFECYCLES["cutx"].steps]
VIDEO = {"artifact_updates": {"video_uri": "s3://videos/one.mp4"}}
ROLES = ("user", "workflow", "admin")

OPEN = [name for name, kind in LIFECYCLES["howera"].kinds.items() if kind != "final"]

# Who may take which declared edge; an admin may take each.
MAY = {
    "image-generation": {
        "user": pairs(),
        "workflow": pairs(queued="running rejected", running="completed failed rejected"),
    },
    "cutx": {
        "user": pairs(pending="canceled", queued="canceled", processing="canceled"),
        "workflow": pairs(
            pending="processing failed", queued="processing failed", processing="completed failed"
        ),
    },
    "ss": {
        "user": pairs(
            created="draft_ready", draft_ready="confirmed", confirmed="queued", failed="queued"
        ),
        "workflow": pairs(created="draft_ready", queued="running", running="succeeded failed"),
    },
    "asset-pattern": {
        "user": pairs(),
        "workflow": pairs(queued="processing", processing="completed partial failed"),
    },
    "howera": {
        "user": pairs(
            CREATED="UPLOADING UPLOADED",
            UPLOADING="UPLOADED",
            UPLOADED="AUDIO_EXTRACTING",
            AUDIO_READY="TRANSCRIBING",
            TRANSCRIPT_READY="GENERATING",
            DRAFT_READY="EDITING",
            EDITING="REGENERATING EXPORTING",
        )
        | pairs(**dict.fromkeys(OPEN, "CANCELLED")),
        "workflow": LIFECYCLES["howera"].moves
        | {(state, state) for state in LIFECYCLES["howera"].again},
    },
}


class Seen(Struct, frozen=True):
    """A job with everything that can be read about it."""

    job: Any
    history: list[Any]
    attempts: list[Any]
    assets: list[Any]


class Asked(Struct, frozen=True):
    """One pair, asked for: what was there, what was said, what is there now, what was logged."""

    before: Seen
    said: Said
    after: Seen
    logged: list[dict[str, Any]]


class Written(Struct, frozen=True):
    """Everything that is stored, and what the service itself says about it."""

    rows: dict[str, list[Any]]
    purse: Any
    faults: tuple[str, ...]


class Told(Struct, frozen=True):
    """``quiet`` is the file before and after all requests that should write nothing."""

    pairs: dict[tuple[str, str, str], Asked]
    quiet: tuple[Written, Written]


# ---------------------------------------------------------------- asking everything


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("pairs"), registry=outside()) as house:
        for name in ("admin", "ada"):
            await house.admin.post(f"/admin/credits/{name}/grant", {"amount": 999, "reason": "-"})
        yield house


@pytest.fixture(scope="module")
async def told(house: House, tmp_path_factory: pytest.TempPathFactory) -> Told:
    asked, quiet = await ask_all(house, [pair for pair in PAIRS if pair not in EXPIRED])
    async with opened(tmp_path_factory.mktemp("late"), registry=outside(await_s=0.05)) as late:
        await late.admin.post("/admin/credits/admin/grant", {"amount": 999, "reason": "-"})
        by_time, still = await ask_all(late, EXPIRED)
    assert still[0] == still[1]
    return Told(asked | by_time, quiet)


async def ask_all(
    house: House, wanted: list[tuple[str, str, str]]
) -> tuple[dict[tuple[str, str, str], Asked], tuple[Written, Written]]:
    jobs: dict[tuple[str, str, str], str] = {}
    asked: dict[tuple[str, str, str], Asked] = {}

    async def stand_for(pair: tuple[str, str, str]) -> None:
        jobs[pair] = await stand(house, house.admin, *pair[:2], by_time=pair in EXPIRED)

    async def ask(pair: tuple[str, str, str]) -> None:
        asked[pair] = await ask_for(house, jobs[pair], pair[2], report_for(*pair))

    quiet = [pair for pair in wanted if outcome(*pair) in QUIET]
    await at_once(stand_for, wanted)
    before = await written(house)
    await at_once(ask, quiet)
    after = await written(house)
    await at_once(ask, [pair for pair in wanted if pair not in quiet])
    return asked, (before, after)


def outcome(workflow: str, source: str, target: str) -> Outcome:
    return LIFECYCLES[workflow].outcome(source, target)


def report_for(workflow: str, source: str, target: str) -> dict[str, Any]:
    return LIFECYCLES[workflow].reports.get(target, {})


async def ask_for(
    house: House, job_id: str, target: str, report: dict[str, Any], caller: Caller | None = None
) -> Asked:
    before, lines = await see(house, job_id), len(house.logged)
    who = caller or house.admin
    said = await who.post(f"/jobs/{job_id}/transitions", {"to": target, **report})
    logged = [line for line in house.logged[lines:] if line.get("job_id") == job_id]
    return Asked(before, said, await see(house, job_id), logged)


async def see(house: House, job_id: str) -> Seen:
    path = f"/jobs/{job_id}"
    return Seen(
        (await house.admin.get(path)).json,
        (await house.admin.get(f"{path}/history")).json["history"],
        (await house.admin.get(f"{path}/attempts")).json["attempts"],
        (await house.admin.get(f"{path}/assets")).json["assets"],
    )


BY_THE_CLOCK = {"lives", "charts"}


async def written(house: House) -> Written:
    """The file itself, read beside the service; not what that writes now and then by itself: when
    it was seen alive last, how much went on."""
    store = house.service.store
    with closing(sqlite3.connect(f"file:{store.path}?mode=ro", uri=True)) as file:
        tables = file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        rows = {
            name: file.execute(f"SELECT * FROM {name}").fetchall()
            for (name,) in tables
            if name not in BY_THE_CLOCK
        }
    return Written(rows, (await house.admin.get("/credits")).json, await store.check())


# ---------------------------------------------------------------- the pairs


def ids(pair: tuple[str, ...]) -> str:
    return "{}: {} to {}".format(*pair)


@pytest.mark.parametrize("pair", PAIRS, ids=ids)
async def test_pair(told: Told, pair: tuple[str, str, str]) -> None:
    """I1 I3-I13 C1-C17 C45 C46 S1-S9 S19 P1-P8 P14-P20 H2 H4 H17-H24 H61-H63: what was said, what
    it left behind, and what was logged agree with the table."""
    source, target = pair[1:]
    asked = told.pairs[pair]
    assert asked.before.job["status"] == source
    CHECKS[outcome(*pair)](asked, source, target)


def moves(asked: Asked, source: str, target: str) -> None:
    """One edge, one version, one row of history, one line of the log."""
    assert asked.said.status == 200, asked.said.raw
    assert asked.said.json["replayed"] is False
    assert asked.after.job["status"] == asked.said.json["status"] == target
    assert asked.after.job["version"] == asked.before.job["version"] + 1
    *known, taken = asked.after.history
    assert known == asked.before.history
    assert (taken["from_status"], taken["to_status"]) == (source, target)
    assert (taken["trigger"], taken["actor"], taken["hop"]) == ("admin", "admin", 1)
    assert taken["version"] == asked.after.job["version"]
    lines = [line for line in asked.logged if line["event"] == "job.transition"]
    assert [(line["from_status"], line["to_status"]) for line in lines] == [(source, target)]
    assert "job.transition_denied" not in {line["event"] for line in asked.logged}


def stays(asked: Asked, source: str, target: str) -> None:
    """Success, and nothing of it is to be seen anywhere."""
    assert asked.said.status == 200, asked.said.raw
    assert asked.said.json["replayed"] is True
    assert asked.after == asked.before
    assert asked.logged == []


def progresses(asked: Asked, source: str, target: str) -> None:
    """The figure moves; status, version and history do not."""
    assert asked.said.status == 200, asked.said.raw
    before, after = asked.before.job, asked.after.job
    assert (before["progress"], after["progress"]) == (0, 25)
    assert (after["status"], after["version"]) == (source, before["version"])
    assert asked.after.history == asked.before.history
    assert asked.said.headers["ETag"] == f'"{after["version"]}.1"'
    assert asked.logged == []


def refused(asked: Asked, source: str, target: str) -> None:
    """409 with both names and the ways there are, one line of the log, and not a trace else."""
    assert asked.said.status == 409, asked.said.raw
    final, problem = asked.before.job["kind"] == "final", asked.said.json
    assert problem["error_code"] == ("TERMINAL_STATE" if final else "ILLEGAL_TRANSITION")
    assert (problem["current_status"], problem["attempted_status"]) == (source, target)
    targets = problem["allowed_next_statuses"]
    assert targets == sorted(targets)
    assert bool(targets) is not final
    assert target not in targets
    assert source in problem["detail"]
    assert target in problem["detail"]
    assert asked.after == asked.before
    (line,) = asked.logged
    assert (line["event"], line["level"]) == ("job.transition_denied", "warning")
    assert line["error_code"] == problem["error_code"]
    assert (line["current_status"], line["attempted_status"]) == (source, target)


CHECKS: dict[Outcome, Callable[[Asked, str, str], None]] = {
    "moves": moves,
    "reenters": moves,
    "stays": stays,
    "progresses": progresses,
    "refused": refused,
}


async def test_the_whole_file_is_as_it_was(told: Told) -> None:
    """I13 C16 S9 S19 P7 H20: 299 refusals and 11 repeats without a write leave every row of every
    table as it was, and the service finds no fault with any of it."""
    before, after = told.quiet
    assert before.faults == after.faults == ()
    assert before.purse == after.purse
    assert before.rows == after.rows
    assert len(before.rows["jobs"]) == len(PAIRS) - len(EXPIRED)


async def test_each_outcome_has_its_number(told: Told) -> None:
    """70 move, 3 re-enter, 12 repeats succeed, 299 are refused: as told, not as planned."""
    found = Counter(told.pairs[pair].said.status for pair in PAIRS)
    assert found == {200: 70 + 3 + 12, 409: 299}
    again = [pair for pair in PAIRS if told.pairs[pair].said.json.get("replayed")]
    assert len(again) == 11
    assert {name for name, _, _ in again} == {"ss", "asset-pattern"}
    hops = [len(one.after.history) - len(one.before.history) for one in told.pairs.values()]
    assert Counter(hops) == {1: 73, 0: 311}


@pytest.mark.parametrize("workflow", LIFECYCLES)
async def test_a_final_state_has_no_way_out(told: Told, workflow: str) -> None:
    """I10-I12 C15 S9 P6 P8 H8 H21-H23 H63: whatever is asked for, the job stays where it ended."""
    kinds = LIFECYCLES[workflow].kinds
    final = [pair for pair in PAIRS if pair[0] == workflow and kinds[pair[1]] == "final"]
    assert final
    for pair in final:
        asked = told.pairs[pair]
        assert asked.after == asked.before
        assert asked.before.job["allowed"]["statuses"] == []
        if pair[1] != pair[2]:
            assert asked.said.code == "TERMINAL_STATE"


# ---------------------------------------------------------------- who may


@pytest.mark.parametrize("workflow", LIFECYCLES)
async def test_who_may_take_an_edge(house: House, workflow: str) -> None:
    """C13 C14 C29 C39 S8 S32: per role, each declared pair moves or is 403, each other pair is
    409 whoever asks; what is refused leaves the job as it was."""
    life = LIFECYCLES[workflow]
    declared = life.moves | {(state, state) for state in life.again}
    here: dict[str, str] = {}

    async def prepare(state: str) -> None:
        here[state] = await stand(house, house.ada, workflow, state)

    async def forbidden(asking: tuple[str, str, str]) -> None:
        role, source, target = asking
        said = await ask_as(house, role, here[source], target, workflow)
        wanted = (403, "FORBIDDEN") if (source, target) in declared else (409, said.code)
        assert (said.status, said.code) == wanted, f"{asking}: {said.raw!r}"

    async def free(asking: tuple[str, str, str]) -> None:
        role, source, target = asking
        job_id = await stand(house, house.ada, workflow, source)
        said = await ask_as(house, role, job_id, target, workflow)
        assert said.status == 200, f"{asking}: {said.raw!r}"
        last = (await house.admin.get(f"/jobs/{job_id}/history")).json["history"][-1]
        assert (last["to_status"], last["trigger"]) == (target, role), asking

    everything = [
        (role, *pair)
        for role in ROLES
        for pair in ((source, target) for source in life.steps for target in life.steps)
        if life.outcome(*pair) in ("moves", "reenters", "refused")
    ]
    free_ones = [one for one in everything if one[1:] in declared and may(workflow, *one)]
    await at_once(prepare, life.steps)
    before = {state: await see(house, job_id) for state, job_id in here.items()}
    await at_once(forbidden, [one for one in everything if one not in free_ones])
    assert before == {state: await see(house, job_id) for state, job_id in here.items()}
    await at_once(free, free_ones)


def may(workflow: str, role: str, source: str, target: str) -> bool:
    return role == "admin" or (source, target) in MAY[workflow][role]


async def ask_as(house: House, role: str, job_id: str, target: str, workflow: str) -> Said:
    """By the owner, by an outside worker, or by an admin who owns nothing. A user who says that a
    video is uploaded also says where it is."""
    caller = {"user": house.ada, "workflow": house.worker, "admin": house.admin}[role]
    report = LIFECYCLES[workflow].reports.get(target, VIDEO if target == "UPLOADED" else {})
    return await caller.post(f"/jobs/{job_id}/transitions", {"to": target, **report})


@pytest.mark.parametrize("workflow", LIFECYCLES)
async def test_the_published_triggers_say_who_may(house: House, workflow: str) -> None:
    """What ``GET /workflows/{name}`` tells of each edge is what is enforced."""
    life = LIFECYCLES[workflow]
    edges = (await house.ada.get(f"/workflows/{workflow}")).json["edges"]
    assert {(edge["from"], edge["to"]) for edge in edges} == life.moves | {
        (state, state) for state in life.again
    }
    for role in ("user", "workflow"):
        told = {(edge["from"], edge["to"]) for edge in edges if role in edge["triggers"]}
        assert told == MAY[workflow][role], role


async def test_a_stranger_learns_nothing_of_a_pair(house: House) -> None:
    """P12: whether a pair is declared is not told to somebody whose job it is not."""
    for workflow, life in LIFECYCLES.items():
        job_id = await stand(house, house.ada, workflow, next(iter(life.steps)))
        wanted = (403, "FORBIDDEN") if workflow == "asset-pattern" else (404, "NOT_FOUND")
        for target in life.steps:
            said = await house.eve.post(f"/jobs/{job_id}/transitions", {"to": target})
            assert (said.status, said.code) == wanted, (workflow, target)
