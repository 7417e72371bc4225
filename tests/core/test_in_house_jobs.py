"""Jobs with stages in-process: stuck, on demand, later, onward, locked, superseded.

As ``test_in_house``, on the same lifecycles; there an attempt is looked at, here the whole job.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Decision, StopStage
from jobrunner.core.declaration.workflow import EXTERNAL, Call, Definition, Guard
from jobrunner.core.job import STAGE, Asset
from jobrunner.core.messages import (
    Advance,
    Beat,
    Claim,
    Edit,
    Ended,
    Recovered,
    Release,
    SetAside,
    Start,
    Stop,
)
from jobrunner.errors import Refused
from tests.core.workshop import (
    AT,
    BROKEN,
    FOR_GOOD,
    PIECES,
    RELAY,
    WORKSHOP,
    cutting,
    effects,
    fail_on,
    painting,
    queued,
    rebound,
)
from tests.driving import ADA, ADMIN, WORKER, World, code, varied

FRAME = Asset("frame-1", "model", "/assets/frame-1/content", "ada/frame.glb", 3)


@pytest.fixture
def shop() -> World:
    return World(WORKSHOP)


# ---------------------------------------------------------------- stop, stuck, release


@pytest.mark.parametrize("arrange", ["running", "due", "parked", "backing off"])
def test_stop_ends_for_good(shop: World, arrange: str) -> None:
    """An operator's word: permanent, STOPPED, along the failure path, audited."""
    job_id = painting(shop)
    match arrange:
        case "due":
            shop.ended(job_id, "interrupted")
        case "parked":
            shop.ended(job_id, "parked", awaits="call-1")
        case "backing off":
            shop.ended(job_id, "failed", BROKEN)
    assert code(shop.tell(job_id, Stop(ADA))) == "FORBIDDEN"
    assert code(shop.tell(job_id, Stop(ADMIN, "enough"))) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.failure_code, job.failure_message) == ("failed", "STOPPED", "enough")
    assert (job.attempt, job.timers, shop.held()) == (None, (), 0)
    assert shop.audited(job_id)[-1].event == "job.stop"


def test_nothing_to_stop(shop: World) -> None:
    job_id = queued(shop)
    assert code(shop.tell(job_id, Stop(ADMIN))) == "ILLEGAL_TRANSITION"


@pytest.mark.parametrize("state", ["queued", *AT])
def test_put_aside(shop: World, state: str) -> None:
    """Nothing moves it by itself; people still may; release lets it go on where it was."""
    job_id = {"queued": queued, **AT}[state](shop)
    status = shop.jobs[job_id].status
    if state == "painting":
        shop.ended(job_id, "interrupted")
    assert code(shop.tell(job_id, SetAside("PARAMS_STALE"))) == "noted"
    assert code(shop.tell(job_id, SetAside("PARAMS_STALE"))) == "put_aside"
    aside = shop.jobs[job_id]
    assert code(shop.start(job_id)) == "not_in_line"
    assert code(shop.claim(job_id)) in ("JOB_LOCKED", "FORBIDDEN")
    assert code(shop.tell(job_id, Advance())) == "stays"
    for timer in aside.timers:
        assert code(shop.fire(job_id, timer.purpose)) == "timer_gone"
    assert shop.jobs[job_id] is aside
    assert code(shop.tell(job_id, Release(ADA))) == "FORBIDDEN"
    assert code(shop.tell(job_id, Release(ADMIN))) == "noted"
    assert code(shop.tell(job_id, Release(ADMIN))) == "not_stuck"
    job = shop.jobs[job_id]
    assert (job.status, job.stuck, job.line_at) == (status, None, aside.line_at)
    assert job.timers == aside.timers, "late by now, they fire"
    if aside.line_at is not None:
        assert code(shop.start(job_id)) in ("moved", "noted")


def test_job_that_was_put_aside_may_be_ended_by_people(shop: World) -> None:
    job_id = queued(shop)
    shop.tell(job_id, SetAside("its actor failed three times"))
    assert code(shop.do(job_id, "cancel")) == "moved"
    assert shop.held() == 0


def barred(definition: Definition, source: str, target: str) -> Definition:
    """One edge is refused to the engine and its stages; this is what ``check`` would not have."""
    guard = Guard(
        Call("artifact_present", {"name": "blessing", "code": "NOT_BLESSED", "detail": "not yet"}),
        on=("stage", "timer", "engine"),
    )
    edges = tuple(
        replace(edge, guards=(guard,)) if (edge.source, edge.target) == (source, target) else edge
        for edge in definition.workflow.edges
    )
    return varied(definition, edges=edges)


def test_refused_pick_up_puts_the_job_aside() -> None:
    """No edge is ever invented: whoever reads the list of stuck jobs finds the reason."""
    shop = World(barred(WORKSHOP, "queued", "cutting"))
    job_id = queued(shop)
    assert code(shop.start(job_id)) == "noted"
    job = shop.jobs[job_id]
    assert (job.status, job.stuck) == ("queued", "NOT_BLESSED: not yet")
    assert not shop.effects
    shop.tell(job_id, Edit(ADA, "wish", "red"))
    shop.definition = WORKSHOP
    shop.tell(job_id, Release(ADMIN))
    assert code(shop.start(job_id)) == "moved"


@pytest.mark.parametrize("outcome", ["failed", "done"])
def test_refused_way_out_of_an_attempt_leaves_no_ghost(outcome: str) -> None:
    """The attempt is over even if nothing may follow from it; after the release there is another,
    not one that seems to run for ever."""
    shop = World(barred(barred(WORKSHOP, "painting", "failed"), "painting", "done"))
    job_id = painting(shop)
    assert code(shop.ended(job_id, outcome, FOR_GOOD if outcome == "failed" else None)) == "noted"
    job = shop.jobs[job_id]
    assert (job.status, job.stuck) == ("painting", "NOT_BLESSED: not yet")
    assert [one.status for one in shop.tried(job_id)].count("running") == 0
    shop.definition = WORKSHOP
    assert code(shop.tell(job_id, Release(ADMIN))) == "noted"
    assert code(shop.start(job_id)) == "noted"
    assert code(shop.ended(job_id, "done")) == "moved"


# ---------------------------------------------------------------- stages on demand


def test_stage_on_demand_leaves_the_job_where_it_is(shop: World) -> None:
    """S2 S28: it has a slot and an attempt of its own, but no run, no lock and no other status."""
    job_id = shop.born("chair")
    assert code(shop.do(job_id, "sketch")) == "noted"
    job = shop.jobs[job_id]
    assert (job.status, job.kind, job.live, job.locks) == ("sketch", "waiting", False, ())
    assert job.line_at is not None
    assert code(shop.do(job_id, "sketch")) == "satisfied", "one at a time"
    assert code(shop.start(job_id)) == "noted"
    assert code(shop.do(job_id, "sketch")) == "satisfied"
    assert code(shop.tell(job_id, Beat(STAGE, 30))) == "noted"
    assert code(shop.ended(job_id, "done", artifacts={"drawing": "a chair"})) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.value("drawing"), shop.money(job_id)) == (
        "queued",
        "a chair",
        ["hold"],
    )


def test_stage_on_demand_may_fail(shop: World) -> None:
    """S23 S35: two tries, then the job waits as before; asked again, it has two tries again."""
    job_id = shop.born("chair")
    for demand in (1, 2):
        shop.do(job_id, "sketch")
        for _ in range(2):
            assert shop.jobs[job_id].attempt is not None
            fail_on(shop, job_id)
        job = shop.jobs[job_id]
        assert (job.status, job.attempt, job.timers) == ("sketch", None, ())
        assert len(shop.tried(job_id)) == 2 * demand
        assert shop.path(job_id) == ["sketch"]


@pytest.mark.parametrize("outcome", ["failed", "rejected", "partial"])
def test_stage_on_demand_may_fail_for_good(shop: World, outcome: str) -> None:
    job_id = shop.born("chair")
    shop.do(job_id, "sketch")
    shop.start(job_id)
    assert code(shop.ended(job_id, outcome, FOR_GOOD)) == "noted"
    assert (shop.jobs[job_id].status, shop.jobs[job_id].attempt) == ("sketch", None)


def test_person_is_faster_than_the_stage_on_demand(shop: World) -> None:
    """Whoever goes on without the drawing stops the work on it."""
    job_id = shop.born("chair")
    shop.do(job_id, "sketch")
    shop.start(job_id)
    serial = shop.jobs[job_id].serial
    assert code(shop.do(job_id, "go")) == "moved"
    assert effects(shop)[-1] == StopStage(serial)
    assert code(shop.tell(job_id, Ended(serial, "done"))) == "late_result"


def test_stage_on_demand_survives_a_crash(shop: World) -> None:
    job_id = shop.born("chair")
    shop.do(job_id, "sketch")
    shop.start(job_id)
    assert code(shop.tell(job_id, Recovered())) == "noted"
    assert code(shop.start(job_id)) == "noted"
    assert shop.jobs[job_id].retry_count == 0


def test_drawing_that_cannot_be_paid(shop: World) -> None:
    """The stage's edge costs: without the credits nothing moves, and nothing is owed."""
    shop.initial = 2
    job_id = shop.born("chair")
    shop.do(job_id, "sketch")
    shop.start(job_id)
    assert code(shop.ended(job_id, "done")) == "noted"
    assert (shop.jobs[job_id].status, shop.jobs[job_id].attempt) == ("sketch", None)
    assert shop.money(job_id) == []
    failure = shop.tried(job_id)[0].failure
    assert failure is not None
    assert failure.code == "INSUFFICIENT_CREDITS"


def test_outside_worker_on_demand_keeps_its_claim() -> None:
    """A worker who draws outside is heard as well, though the job only waits."""
    states = tuple(
        replace(state, on_demand=EXTERNAL) if state.on_demand else state
        for state in WORKSHOP.workflow.states
    )
    shop = World(varied(WORKSHOP, states=states))
    job_id = shop.born("chair")
    assert code(shop.tell(job_id, Beat(WORKER, 10))) == "progress_ignored"
    shop.do(job_id, "sketch")
    assert code(shop.claim(job_id)) == "noted"
    shop.now += 50_000
    assert code(shop.tell(job_id, Beat(WORKER, 10))) == "noted"
    lease = shop.jobs[job_id].timer("lease")
    assert lease is not None
    assert lease.due_at == shop.now + 60_000


# ---------------------------------------------------------------- later starts


def test_later_start_in_a_line() -> None:
    """With a future run_at a job rests where it was born and takes its hops then."""
    track = World(RELAY)
    job_id = track.born("team", run_at=track.now + 60_000)
    job = track.jobs[job_id]
    assert (job.status, job.line_at) == ("line", None)
    assert code(track.start(job_id)) == "not_in_line"
    assert code(track.fire(job_id, "run_at")) == "noted"
    assert track.jobs[job_id].line_at == track.jobs[job_id].updated_at
    assert code(track.start(job_id)) == "moved"


def test_later_start_for_outside_workers() -> None:
    track = World(rebound(RELAY, first=EXTERNAL))
    job_id = track.born("team", run_at=track.now + 60_000)
    assert code(track.claim(job_id)) == "JOB_ALREADY_RUNNING"
    track.fire(job_id, "run_at")
    assert code(track.claim(job_id)) == "moved"


def test_start_that_is_later_already() -> None:
    track = World(RELAY)
    job_id = track.born("team", run_at=track.now - 60_000)
    assert track.jobs[job_id].line_at is not None
    assert track.jobs[job_id].timers == ()


def test_clock_that_is_set_back_holds_no_job_up(shop: World) -> None:
    """One whose start was past when it came has no timer that could call it again."""
    job_id = shop.born("chair", run_at=shop.now - 1000)
    shop.now -= 3_600_000
    shop.do(job_id, "go")
    assert shop.jobs[job_id].line_at == shop.now
    assert code(shop.start(job_id)) == "moved"


def test_person_goes_on_before_the_later_start(shop: World) -> None:
    """The line is entered, but not served before its time."""
    job_id = shop.born("chair", run_at=shop.now + 60_000)
    shop.do(job_id, "go")
    assert shop.jobs[job_id].line_at is None
    shop.fire(job_id, "run_at")
    assert code(shop.start(job_id)) == "moved"


# ---------------------------------------------------------------- onward


def test_checkpoints_are_passed_in_one_commit(shop: World) -> None:
    """H38 H39 S37: from stage to stage over the state between them, under one version; the next
    attempt waits inside for its slot."""
    job_id = cutting(shop)
    before = shop.jobs[job_id]
    said = shop.ended(job_id, "done", **PIECES)
    assert isinstance(said, Decision)
    assert [(hop.from_status, hop.to_status, hop.trigger) for hop in said.hops] == [
        ("cutting", "cut", "stage"),
        ("cut", "gluing", "engine"),
    ]
    job = shop.jobs[job_id]
    assert job.version == before.version + 1
    assert job.run_id == before.run_id
    assert job.attempt is not None
    assert (job.attempt.state, job.attempt.status, job.attempt.number) == ("gluing", "due", 1)
    assert job.line_at == job.updated_at


def test_stage_whose_work_is_there_is_skipped(shop: World) -> None:
    """H41 H43: entered, skipped, left, all in one commit, and the next one is due."""
    job_id = painting(shop)
    shop.ended(job_id, "failed", FOR_GOOD)
    shop.do(job_id, "retry")
    shop.start(job_id)
    files: dict[str, Any] = {"assets": (FRAME,), "artifacts": {"pieces": 7, "frame": FRAME.url}}
    assert code(shop.ended(job_id, "failed", BROKEN, **files)) == "moved"
    shop.fire(job_id, "retry")
    shop.start(job_id)
    said = shop.ended(job_id, "done")
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == ["cut", "gluing", "glued", "painting"]
    skipped = [one for one in shop.tried(job_id) if one.outcome == "skipped"]
    assert [(one.state, one.status) for one in skipped] == [("gluing", "ended")]
    assert shop.jobs[job_id].line_at is not None


def test_engine_waits_where_the_next_stage_is_not_ours() -> None:
    """S-r14 H38: the job rests before an outside stage until somebody outside moves it."""
    track = World(RELAY)
    job_id = track.born("team")
    track.start(job_id)
    track.ended(job_id, "done")
    assert track.jobs[job_id].status == "between"
    assert code(track.tell(job_id, Advance())) == "stays"
    track.definition = rebound(RELAY, second="track.run")
    assert code(track.tell(job_id, Advance())) == "moved"
    assert track.jobs[job_id].line_at is not None


# ---------------------------------------------------------------- locks, runs, lapse


def test_locks_by_scope_and_run(shop: World) -> None:
    """H26 H53 S36 C15: taken on entering, kept over the state between, freed on leaving."""
    job_id = queued(shop)
    run_id = shop.jobs[job_id].run_id
    held: list[list[tuple[str, str, str]]] = []
    nothing: dict[str, Any] = {}
    for ending in (nothing, PIECES, nothing, nothing):
        if held:
            shop.ended(job_id, "done", **ending)
        held.append([(lock.scope, lock.run_id, lock.holder) for lock in shop.jobs[job_id].locks])
        shop.start(job_id)
        held.append([(lock.scope, lock.run_id, lock.holder) for lock in shop.jobs[job_id].locks])
    bench, brush = [("bench", run_id, "stage")], [("brush", run_id, "stage")]
    assert held == [[], bench, bench, bench, brush, brush, [], []]
    assert shop.jobs[job_id].status == "done"


def test_every_way_out_frees_the_locks(shop: World) -> None:
    """H34 H51: cancelled, failed or backing off into a line, nobody holds anything."""
    for state, leave in (("cutting", "failed"), ("gluing", "cancel"), ("painting", "for good")):
        world = World(WORKSHOP)
        job_id = AT[state](world)
        assert world.jobs[job_id].locks
        match leave:
            case "failed":
                world.ended(job_id, "failed", BROKEN)
            case "cancel":
                world.do(job_id, "cancel")
            case "for good":
                world.ended(job_id, "failed", FOR_GOOD)
        assert world.jobs[job_id].locks == ()
    assert shop.writes == 0


def test_lock_of_a_stage_names_the_life_of_the_service(shop: World) -> None:
    """A lock of an earlier process is void, so the one that is running writes its own epoch."""
    job_id = cutting(shop)
    (lock,) = shop.jobs[job_id].locks
    assert (lock.holder, lock.epoch, lock.lease_until) == ("stage", 1, None)


def between(track: World) -> str:
    job_id = track.born("team")
    track.start(job_id)
    track.ended(job_id, "done")
    return job_id


def test_report_of_another_run_is_stale(shop: World) -> None:
    """H55 C33: who works on a run that is over is told so."""
    job_id = shop.born("kit")
    shop.do(job_id, "go")
    shop.claim(job_id)
    run_id = shop.jobs[job_id].run_id
    assert code(shop.tell(job_id, Beat(WORKER, 5, run_id="another"))) == "STALE_RUN"
    assert code(shop.callback(job_id, "e1", "cut", run_id="another", **PIECES)) == "STALE_RUN"
    assert code(shop.callback(job_id, "e1", "cut", run_id=run_id, **PIECES)) == "moved"


def test_run_lapses_when_nobody_comes() -> None:
    """H26: after silence the run is closed and the baton free; the status stays, and a person may
    begin a new run from there."""
    track = World(RELAY)
    job_id = between(track)
    before = track.jobs[job_id]
    assert [lock.scope for lock in before.locks] == ["baton"]
    lapse = before.timer("lapse")
    assert lapse is not None
    assert lapse.due_at == before.updated_at + 600_000
    assert code(track.fire(job_id, "lapse")) == "noted"
    job = track.jobs[job_id]
    assert (job.status, job.locks, job.live, job.timers) == ("between", (), False, ())
    assert code(track.do(job_id, "resume")) == "moved"
    resumed = track.jobs[job_id]
    assert resumed.run_id != before.run_id
    assert [(lock.scope, lock.run_id) for lock in resumed.locks] == [("baton", resumed.run_id)]


def test_run_that_is_taken_on_does_not_lapse() -> None:
    """H26: coming to work stops the clock, and gives the lock a lease of the workflow's."""
    track = World(RELAY)
    job_id = between(track)
    run_id = track.jobs[job_id].run_id
    assert code(track.callback(job_id, "e1", "second")) == "moved"
    job = track.jobs[job_id]
    assert (job.run_id, job.timer("lapse")) == (run_id, None)
    assert [lock.lease_until for lock in job.locks] == [job.updated_at + 300_000]
    track.now += 100_000
    track.tell(job_id, Beat(WORKER))
    assert [lock.lease_until for lock in track.jobs[job_id].locks] == [track.now + 300_000]


# ---------------------------------------------------------------- superseding


def resting(world: World, **more: Any) -> str:
    """A job that waits for its next try, with its key free."""
    said = world.submit("chair", **more)
    assert isinstance(said, Decision), said
    job_id = said.after.id
    world.do(job_id, "go")
    world.start(job_id)
    world.ended(job_id, "failed", BROKEN)
    assert world.jobs[job_id].status == "resting"
    return job_id


def test_newer_submission_takes_the_key() -> None:
    """I-r2 I37: the old job ends and lets its money go in the commit that makes the new one."""
    shop = World(WORKSHOP, balance=3)
    old = resting(shop)
    assert shop.balance() == 0
    said = shop.submit("chair")
    assert isinstance(said, Decision)
    assert said.after.id != old
    ended = shop.jobs[old]
    assert (ended.status, ended.timers, shop.balance()) == ("failed", (), 3)
    assert [(one, letter.reason, letter.hidden) for one, letter in shop.dead_letters] == [
        (old, "superseded", True)
    ]
    assert {row.takes_from for row in said.keys} == {old}
    again = shop.submit("chair")
    assert code(again) == "replayed"
    assert not isinstance(again, Decision | Refused)
    assert again.snapshot.id == said.after.id


def test_one_submission_may_supersede_two() -> None:
    """Each key is taken from the job that held it."""
    shop = World(WORKSHOP)
    first = resting(shop, params={"name": "bench"}, key="my-key")
    second = resting(shop, params={"name": "table"})
    said = shop.submit("chair", {"name": "table"}, key="my-key")
    assert isinstance(said, Decision)
    assert {shop.jobs[first].status, shop.jobs[second].status} == {"failed"}
    assert [row.takes_from for row in said.keys] == [first, second]


def test_job_at_work_keeps_its_key(shop: World) -> None:
    """I37: only a failure frees it; everything else is the same job."""
    job_id = painting(shop)
    said = shop.submit("chair", {})
    assert code(said) == "replayed"
    assert shop.jobs[job_id].status == "painting"


# ---------------------------------------------------------------- who may do what


def test_wish_walks_and_is_locked_later(shop: World) -> None:
    """A person's edit may move the job, and is refused where the work has begun."""
    job_id = shop.born("chair")
    assert code(shop.tell(job_id, Edit(ADA, "wish", "red"))) == "moved"
    assert shop.jobs[job_id].status == "queued"
    assert code(shop.tell(job_id, Edit(ADA, "wish", "blue", base_version=1))) == "noted"
    assert code(shop.tell(job_id, Edit(ADA, "wish", "green", base_version=1))) == (
        "ARTIFACT_VERSION_CONFLICT"
    )
    shop.start(job_id)
    assert code(shop.tell(job_id, Edit(ADA, "wish", "green"))) == "JOB_LOCKED"
    assert code(shop.tell(job_id, Edit(WORKER, "wish", "green"))) == "FORBIDDEN"


def test_claims_are_for_workers(shop: World) -> None:
    job_id = shop.born("kit")
    shop.do(job_id, "go")
    assert code(shop.tell(job_id, Claim(ADA))) == "FORBIDDEN"
    assert code(shop.tell(job_id, Start())) == "not_in_line", "cut outside, so no slot is needed"
    assert code(shop.tell(job_id, Claim(WORKER))) == "moved"
    assert code(shop.tell(job_id, Claim(ADMIN))) == "JOB_ALREADY_RUNNING"


def test_edges_by_hand_are_not_for_everybody(shop: World) -> None:
    """S20 P7: an admin may take every declared edge, a user only its own."""
    job_id = queued(shop)
    assert code(shop.move(job_id, "cutting", ADA)) == "FORBIDDEN"
    assert code(shop.move(job_id, "cutting", ADMIN)) == "moved"
    assert shop.jobs[job_id].line_at is not None, "moved by hand, it still needs its slot"
    assert code(shop.start(job_id)) == "noted"
