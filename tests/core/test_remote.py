"""A stage of ours that runs elsewhere, decided: its waits, its silence, and our own death."""

from jobrunner_hello import definition as hello
from msgspec.structs import replace

from jobrunner.core.decide import decide
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.facts import Facts
from jobrunner.core.job import Attempt, Failure, Snapshot
from jobrunner.core.messages import Answered, Claim, Ended, Fired, Keep, Moment, Remote, Report
from jobrunner.errors import Refused
from tests.driving import WORKER, World

RUNS = (("greeting", "greeting", "hello.greet"),)


def outside() -> World:
    from jobrunner.core.declaration.workflow import Definition

    states = tuple(
        replace(state, stage={"*": EXTERNAL}) if state.kind == "active" else state
        for state in hello.workflow.states
    )
    workflow = replace(hello.workflow, states=states)
    return World(Definition(workflow, hello.functions, hello.structs))


def claimed(world: World, job_id: str = "") -> Snapshot:
    job_id = job_id or world.born()
    said = world.tell(job_id, Claim(WORKER, RUNS))
    assert isinstance(said, Decision), said
    return world.jobs[job_id]


def attempt_of(job: Snapshot) -> Attempt:
    assert job.attempt is not None
    return job.attempt


def tell(world: World, job: Snapshot, said: Ended | Keep) -> Decision | NoOp | Refused:
    return world.tell(job.id, Remote(WORKER, said, claim=attempt_of(job).serial))


def test_a_claim_knows_the_stage_that_it_runs() -> None:
    assert attempt_of(claimed(outside())).runs == "hello.greet"


def test_who_has_not_the_stage_gets_nothing() -> None:
    world = outside()
    job_id = world.born()
    refused = world.tell(job_id, Claim(WORKER, (("elsewhere", "greeting", "hello.greet"),)))
    assert isinstance(refused, Refused)
    assert world.jobs[job_id].status == "queued"


def test_a_parked_attempt_is_nobodys_until_its_answer_is_there() -> None:
    """What it kept and was told are there for whoever claims it next, and it is the same try."""
    world = outside()
    job = claimed(world)
    assert isinstance(tell(world, job, Keep(0, "order", 7)), Decision)
    parked = Ended(0, "parked", awaits="ticket", await_s=60)
    assert isinstance(tell(world, world.jobs[job.id], parked), Decision)
    attempt = attempt_of(world.jobs[job.id])
    assert (attempt.status, attempt.holder, attempt.claimant) == ("parked", "", "")
    assert world.jobs[job.id].timer("lease") is None
    assert isinstance(world.tell(job.id, Answered(WORKER, "ticket", "yes")), Decision)
    again = world.jobs[job.id]
    assert again.line_at is None, "it waits for a claim, not for a slot"
    found = attempt_of(claimed(world, job.id))
    assert (found.kept, found.answers) == ({"order": 7}, {"ticket": "yes"})
    assert (found.number, found.serial) == (attempt.number, attempt.serial)


def test_an_early_answer_is_there_when_it_parks() -> None:
    world = outside()
    job = claimed(world)
    assert isinstance(world.tell(job.id, Answered(WORKER, "ticket", "yes")), Decision)
    tell(world, world.jobs[job.id], Ended(0, "parked", awaits="ticket"))
    assert attempt_of(world.jobs[job.id]).status == "due"


def test_a_worker_that_is_lost_spends_no_retry_twice() -> None:
    """Two losses interrupt, and hand on what was kept; the third in a row is a failure."""
    world = outside()
    job = claimed(world)
    tell(world, job, Keep(0, "order", 7))
    for loss in (1, 2):
        world.fire(job.id, "lease")
        job = world.jobs[job.id]
        assert (job.retry_count, job.deaths) == (0, loss)
        assert attempt_of(job).kept == {"order": 7}
        job = claimed(world, job.id)
    world.fire(job.id, "lease")
    job = world.jobs[job.id]
    assert (job.retry_count, job.deaths, attempt_of(job).kept) == (1, 0, {})
    outcomes = [(one.outcome, one.failure and one.failure.code) for one in world.tried(job.id)]
    assert outcomes[:3] == [
        ("interrupted", "INTERRUPTED"),
        ("interrupted", "INTERRUPTED"),
        ("failed", "HEARTBEAT_LOST"),
    ]


def test_a_lease_of_an_earlier_life_is_given_once_more() -> None:
    """While the service was away nobody could be heard: its own death ends no attempt."""
    world = outside()
    job = claimed(world)
    lease = job.timer("lease")
    assert lease is not None
    late = Moment(lease.due_at + 3_600_000, "later", epoch=2)
    said = decide(world.definition, job, Fired("lease", lease.due_at), Facts(), late)
    assert isinstance(said, Decision)
    after = said.after
    assert attempt_of(after).serial == attempt_of(job).serial
    renewed = after.timer("lease")
    assert renewed is not None
    assert renewed.due_at == late.now + 60_000
    later = replace(late, now=renewed.due_at)
    silent = decide(world.definition, after, Fired("lease", renewed.due_at), Facts(), later)
    assert isinstance(silent, Decision)
    assert silent.after.deaths == 1


def test_an_outcome_that_the_state_does_not_know_is_the_stages_fault() -> None:
    world = outside()
    job = claimed(world)
    said = tell(world, job, Ended(0, "partial", Report(), Failure("PARTIAL", "half", "", False)))
    assert isinstance(said, Decision)
    assert world.jobs[job.id].failure_code == "STAGE_CRASHED"
