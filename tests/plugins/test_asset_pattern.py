"""The asset-pattern lifecycle, shown in the pure core: no clock, no store, no HTTP."""

from typing import Any

import msgspec
import pytest
from jobrunner_asset_pattern import definition as shipped
from jobrunner_asset_pattern.params import Export, Generation
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.workflow import Deadline
from jobrunner.core.job import Failure
from jobrunner.core.messages import Beat
from jobrunner.errors import Refused
from tests.driving import (
    ADA,
    ADMIN,
    EVE,
    WORKER,
    Arrange,
    World,
    bound,
    code,
    outside,
    picture,
    varied,
)

definition = outside(shipped)

STATUSES = ("queued", "processing", "completed", "partial", "failed")
FINAL = ("completed", "partial", "failed")
MOVES = {
    ("queued", "processing"),
    ("processing", "completed"),
    ("processing", "partial"),
    ("processing", "failed"),
}
STORAGE = Failure("STORAGE", "the bucket does not answer")
UNKNOWN = Failure("STAGE_CRASHED", "ValueError: no such format", retryable=False)


def queued(world: World) -> str:
    return world.born()


def processing(world: World) -> str:
    job_id = queued(world)
    assert code(world.claim(job_id)) == "moved"
    return job_id


def completed(world: World) -> str:
    job_id = processing(world)
    world.callback(job_id, "e1", "completed", result={"asset_count": 1})
    return job_id


def partial(world: World) -> str:
    job_id = processing(world)
    world.callback(job_id, "e1", "partial", result={"asset_count": 1})
    return job_id


def failed(world: World) -> str:
    job_id = processing(world)
    world.callback(job_id, "e1", "failed", failure_message="no such format")
    return job_id


AT_REST: dict[str, Arrange] = {
    "queued": queued,
    "processing": processing,
    "completed": completed,
    "partial": partial,
    "failed": failed,
}
REPORTS: dict[str, dict[str, Any]] = {
    "processing": {"progress": 25},
    "failed": {"failure_message": "by hand"},
}


@pytest.fixture
def world() -> World:
    return World(definition)


@pytest.fixture
def house() -> World:
    """A world with a stage of its own for both types."""
    return World(bound(definition))


def test_declaration_is_sound() -> None:
    assert check(definition) == ()
    assert check(bound(definition)) == ()


def test_states_are_the_five() -> None:
    """P1"""
    assert tuple(definition.states) == STATUSES


@pytest.mark.parametrize("to", STATUSES)
@pytest.mark.parametrize("status", STATUSES)
def test_pair(world: World, status: str, to: str) -> None:
    """P2-P8 P14 P15: four pairs move, 16 are refused with both states named; a repeat is progress
    in `processing` and nothing at all elsewhere."""
    job_id = AT_REST[status](world)
    before = world.jobs[job_id]
    assert before.status == status
    said = world.move(job_id, to, ADMIN, **REPORTS.get(to, {}))
    job = world.jobs[job_id]
    if (status, to) in MOVES:
        assert (code(said), job.status) == ("moved", to)
    elif (status, to) == ("processing", "processing"):
        assert (code(said), job.status, job.progress) == ("noted", status, 25)
        assert job.version == before.version
    elif status == to:
        assert code(said) == "satisfied"
        assert job is before
    else:
        assert code(said) == ("TERMINAL_STATE" if status in FINAL else "ILLEGAL_TRANSITION")
        assert job is before
        assert isinstance(said, Refused)
        assert repr(status) in said.detail
        assert repr(to) in said.detail
        assert (said.status, said.extra["current_status"]) == (409, status)


@pytest.mark.parametrize("pair", sorted(MOVES))
def test_owner_takes_no_edge_by_hand(world: World, pair: tuple[str, str]) -> None:
    job_id = AT_REST[pair[0]](world)
    assert code(world.move(job_id, pair[1], ADA, **REPORTS.get(pair[1], {}))) == "FORBIDDEN"


# ---------------------------------------------------------------- creation


@pytest.mark.parametrize("job_type", ["generation", "export"])
def test_birth(world: World, job_type: str) -> None:
    """P9 P31: no parameters are parameters enough; nothing done, nothing wrong, nothing owed."""
    said = world.submit(job_type)
    assert isinstance(said, Decision)
    job = said.after
    assert (job.status, job.job_type, job.user_id) == ("queued", job_type, "ada")
    assert (job.progress, job.result, job.failure_message) == (0, None, None)
    assert job.created_at == job.updated_at == world.now
    assert job.completed_at is None
    assert (said.ledger, job.credits) == ((), "none")
    assert world.logged(job.id, "job.created") == [{"job_type": job_type, "credits_cost": 0}]


def test_first_type_is_the_default(world: World) -> None:
    assert world.jobs[queued(world)].job_type == "generation"


def test_pick_up_is_compare_and_set(world: World) -> None:
    """P2 P28: progress 0, started; the second claimant is refused."""
    job_id = processing(world)
    job = world.jobs[job_id]
    assert (job.progress, job.started_at) == (0, world.now)
    again = world.claim(job_id)
    assert isinstance(again, Refused)
    assert (again.code, again.status) == ("JOB_ALREADY_RUNNING", 409)
    assert again.extra["run_id"] == job.run_id


@pytest.mark.parametrize("status", FINAL)
def test_nothing_is_claimed_after_the_end(world: World, status: str) -> None:
    """P6 P8"""
    assert code(world.claim(AT_REST[status](world))) == "TERMINAL_STATE"


def test_client_key_leads_to_the_old_job(world: World) -> None:
    job_id = world.born(key="k")
    assert code(world.submit(key="k")) == "replayed"
    assert code(world.submit(key="k", actor=EVE)) == "moved"
    assert code(world.submit()) == "moved"
    assert job_id in world.jobs


# ---------------------------------------------------------------- progress


@pytest.mark.parametrize("figure", [0, 25, 100])
def test_repeat_in_processing_is_progress(world: World, figure: int) -> None:
    """P15 P16 P20: figure and message are written, the status and the version are not."""
    job_id = processing(world)
    before = world.jobs[job_id]
    said = world.move(job_id, "processing", WORKER, progress=figure, message="step")
    assert isinstance(said, Decision)
    job = world.jobs[job_id]
    assert (job.progress, job.progress_message, job.status) == (figure, "step", "processing")
    assert (job.version, job.beat) == (before.version, before.beat + 1)
    assert job.updated_at == world.now > before.updated_at
    assert said.hops == ()


def test_progress_may_go_back(world: World) -> None:
    """P16: the last word counts."""
    job_id = processing(world)
    for figure in (75, 50):
        world.move(job_id, "processing", WORKER, progress=figure)
    assert world.jobs[job_id].progress == 50


def test_repeat_without_a_figure_writes_nothing(world: World) -> None:
    """P15 P17"""
    job_id = processing(world)
    before = world.jobs[job_id]
    assert code(world.move(job_id, "processing", WORKER)) == "satisfied"
    assert world.jobs[job_id] is before


@pytest.mark.parametrize("figure", [-1, 101])
def test_progress_has_a_range(world: World, figure: int) -> None:
    """P35"""
    job_id = processing(world)
    said = world.move(job_id, "processing", WORKER, progress=figure)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)


@pytest.mark.parametrize("status", ["queued", "completed", "partial", "failed"])
def test_progress_elsewhere_is_ignored_with_a_warning(world: World, status: str) -> None:
    """P19"""
    job_id = AT_REST[status](world)
    said = world.tell(job_id, Beat(WORKER, 50, "too late"))
    assert isinstance(said, NoOp)
    assert (said.name, said.snapshot.status) == ("progress_ignored", status)
    assert [log.event for log in said.logs] == ["job.progress_ignored"]


@pytest.mark.parametrize("status", FINAL)
def test_repeat_of_an_end_rewrites_nothing(world: World, status: str) -> None:
    """P6 P15 P17: result, message and completed_at stay as they were first told."""
    job_id = AT_REST[status](world)
    before = world.jobs[job_id]
    said = world.move(
        job_id, status, WORKER, result={"other": 1}, progress=3, failure_message="other"
    )
    assert code(said) == "satisfied"
    assert world.jobs[job_id] is before


def test_unknown_status(world: World) -> None:
    """P34"""
    said = world.move(queued(world), "done", ADMIN)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)


# ---------------------------------------------------------------- the ends


def test_completed(world: World) -> None:
    """P3 P17 P18 P21 P37: 100 %, with a result if there is one; a log line for each thing told."""
    job_id = processing(world)
    world.move(job_id, "processing", WORKER, progress=75)
    world.callback(job_id, "e1", "completed", result={"asset_count": 1}, assets=(picture(),))
    job = world.jobs[job_id]
    assert (job.progress, job.result, job.completed_at) == (100, {"asset_count": 1}, world.now)
    assert (job.failure_message, job.locks, job.timers) == (None, (), ())
    (logged,) = world.logged(job_id, "asset.created")
    assert (logged["asset_id"], logged["asset_type"]) == ("asset-one", "image")
    assert world.logged(job_id, "job.transition") == [
        {"from_status": "queued", "to_status": "processing"},
        {"from_status": "processing", "to_status": "completed"},
    ]
    assert world.logged(job_id, "job.created")


def test_completed_without_a_result(world: World) -> None:
    """P17 P21"""
    job_id = processing(world)
    assert code(world.callback(job_id, "e1", "completed")) == "moved"
    assert world.jobs[job_id].result is None


def test_partial_says_both(world: World) -> None:
    """P4 P23 P39: a result and what went wrong, at 100 %."""
    job_id = processing(world)
    world.callback(
        job_id, "e1", "partial", result={"asset_count": 2}, failure_message="one input was broken"
    )
    job = world.jobs[job_id]
    assert (job.status, job.progress, job.result) == ("partial", 100, {"asset_count": 2})
    assert job.failure_message == "one input was broken"
    assert job.completed_at == world.now


def test_partial_needs_neither(world: World) -> None:
    """P17 P23"""
    job_id = processing(world)
    assert code(world.callback(job_id, "e1", "partial")) == "moved"
    assert world.jobs[job_id].failure_message is None


def test_failed_keeps_how_far_it_came(world: World) -> None:
    """P5 P22 P40: the message, and the last progress."""
    job_id = processing(world)
    world.move(job_id, "processing", WORKER, progress=50)
    world.callback(job_id, "e1", "failed", failure_message="no such format")
    job = world.jobs[job_id]
    assert (job.progress, job.failure_message, job.completed_at) == (
        50,
        "no such format",
        world.now,
    )
    assert (job.failed_stage, job.correlation_id) == ("processing", job.run_id)


def test_failed_needs_its_message(world: World) -> None:
    """P22 P40"""
    job_id = processing(world)
    said = world.callback(job_id, "e1", "failed")
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)


# ---------------------------------------------------------------- stages


def test_stage_reports_step_by_step(house: World) -> None:
    """P28: 0, 25, 50, 75, and the asset in the decision that completes."""
    job_id = house.born()
    house.start(job_id)
    assert house.jobs[job_id].progress == 0
    said = house.ended(job_id, "done", result={"asset_count": 1}, assets=(picture(),))
    assert isinstance(said, Decision)
    assert [asset.id for asset in said.assets] == ["asset-one"]
    assert (said.after.status, said.after.progress) == ("completed", 100)


def test_stage_may_say_partial(house: World) -> None:
    """P4 P39"""
    job_id = house.born("export")
    house.start(job_id)
    house.ended(job_id, "partial", UNKNOWN, result={"asset_count": 1})
    job = house.jobs[job_id]
    assert (job.status, job.failure_message) == ("partial", UNKNOWN.message)


def test_unknown_exception_fails_at_once_though_assets_exist(house: World) -> None:
    """P29: a failure is a failure."""
    job_id = house.born()
    house.start(job_id)
    house.ended(job_id, "failed", UNKNOWN, assets=(picture(),))
    assert house.path(job_id) == ["queued", "processing", "failed"]
    assert house.jobs[job_id].failure_message == UNKNOWN.message


@pytest.mark.parametrize(
    ("jitter", "waits_ms"), [(0.5, (1000, 2000)), (0.0, (750, 1500)), (1.0, (1250, 2500))]
)
def test_retries_stay_inside(house: World, jitter: float, waits_ms: tuple[int, ...]) -> None:
    """P5 P38: three attempts, a second doubled, a quarter up or down; no status shows them."""
    house.jitter = jitter
    job_id = house.born()
    house.start(job_id)
    for wait_ms in waits_ms:
        house.ended(job_id, "failed", STORAGE)
        assert house.jobs[job_id].next_attempt_at == house.now + wait_ms
        house.fire(job_id, "backoff")
        house.start(job_id)
    house.ended(job_id, "failed", STORAGE)
    assert house.path(job_id) == ["queued", "processing", "failed"]
    assert house.jobs[job_id].attempts == 3


@pytest.mark.parametrize("where", ["house", "outside"])
def test_every_job_ends(where: str) -> None:
    """P38: ten minutes an attempt, three attempts, whoever works on it."""
    world = World(bound(definition) if where == "house" else definition)
    job_id = world.born()
    for n in range(3):
        if n:
            world.fire(job_id, "backoff")
        world.start(job_id) if where == "house" else world.claim(job_id)
        attempt = world.jobs[job_id].attempt
        assert attempt is not None
        world.fire(job_id, "limit" if where == "house" else "deadline")
        assert world.now - attempt.opened_at >= 600_000
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.timers) == ("failed", "STAGE_TIMEOUT", ())


def test_queue_deadline_passes_through_processing() -> None:
    """P7 P38: nothing leads from `queued` to `failed`, so two hops do, in one commit."""
    assert definition.states["queued"].deadline == Deadline(0, ("processing", "failed"))
    states = tuple(
        replace(state, deadline=Deadline(60, ("processing", "failed")))
        if state.name == "queued"
        else state
        for state in definition.workflow.states
    )
    world = World(varied(definition, states=states))
    job_id = queued(world)
    world.fire(job_id, "deadline")
    assert world.path(job_id) == ["queued", "processing", "failed"]
    assert world.jobs[job_id].version == 2
    assert world.jobs[job_id].failure_message


def test_given_up_work_is_listed(world: World) -> None:
    failed(world)
    ((_, letter),) = world.dead_letters
    assert letter.failure.message == "no such format"


# ---------------------------------------------------------------- strangers, commands, params


@pytest.mark.parametrize("status", STATUSES)
def test_stranger_is_forbidden(world: World, status: str) -> None:
    """P12: here a foreign job is told from a missing one."""
    job_id = AT_REST[status](world)
    said = world.move(job_id, "processing", EVE)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("FORBIDDEN", 403)


@pytest.mark.parametrize("command", ["cancel", "retry", "run"])
def test_no_commands(world: World, command: str) -> None:
    job_id = processing(world)
    said = world.do(job_id, command)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("UNKNOWN_COMMAND", 404)


@pytest.mark.parametrize("struct", [Generation, Export])
@pytest.mark.parametrize(
    "params", [{}, {"inputs": ["https://example.org/a.png"]}, {"extra": {"any": [{"thing": 1}]}}]
)
def test_params_that_are_taken(struct: type[Any], params: dict[str, Any]) -> None:
    """P9"""
    assert msgspec.to_builtins(msgspec.convert(params, struct)).items() >= params.items()


@pytest.mark.parametrize(
    ("struct", "params"),
    [
        (Generation, {"format": "bmp"}),
        (Generation, {"sizes": [0]}),
        (Generation, {"inputs": [""]}),
        (Generation, {"colour": "red"}),
        (Export, {"format": "rar"}),
        (Export, {"manifest": 1}),
    ],
)
def test_params_that_are_not_taken(struct: type[Any], params: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(params, struct)
