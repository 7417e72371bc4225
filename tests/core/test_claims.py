"""Two outside workers and one job: whoever lost the attempt has no say in the next one."""

import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.job import Actor, Attempt
from jobrunner.core.messages import Beat, Claim, Do, Event, Fired, Message, Move, Report
from jobrunner.errors import Refused
from tests.driving import ADA, ADMIN, World, code
from tests.standing import LIFECYCLES, Take, only, report_of, stand, take

ANNA = Actor("anna", "workflow", "token-a")
BERT = Actor("bert", "workflow", "token-b")
WHERE = [
    (name, state)
    for name, lifecycle in LIFECYCLES.items()
    for state, kind in lifecycle.kinds.items()
    if kind == "active"
]


def claimed(workflow: str, state: str, actor: Actor = ANNA) -> World:
    """One job there, whose attempt this worker claimed."""
    lifecycle = LIFECYCLES[workflow]
    world = World(lifecycle.definition)
    for step in lifecycle.steps[state]:
        said = world.claim(only(world), actor) if isinstance(step, Take) else take(world, step)
        assert isinstance(said, Decision), said
    if not attempt_in(world).claimant:
        assert code(world.claim(only(world), actor)) == "noted"
    assert attempt_in(world).claimant == actor.badge
    return world


def lost(workflow: str, state: str) -> World:
    """Anna's lease ran out, and Bert works there now; where retries live, in the same run."""
    world = claimed(workflow, state)
    run_id = world.jobs[only(world)].run_id
    assert isinstance(world.fire(only(world), "lease"), Decision)
    for purpose in ("retry", "backoff"):
        if world.jobs[only(world)].timer(purpose):
            world.fire(only(world), purpose)
    if world.definition.states[world.jobs[only(world)].status].rests:
        assert isinstance(take(world, LIFECYCLES[workflow].steps[state][-1]), Decision)
        run_id = world.jobs[only(world)].run_id
    assert isinstance(world.claim(only(world), BERT), Decision)
    job = world.jobs[only(world)]
    assert (job.status, job.run_id) == (state, run_id)
    return world


def attempt_in(world: World) -> Attempt:
    attempt = world.jobs[only(world)].attempt
    assert attempt is not None
    return attempt


def reports(world: World, actor: Actor, said: Report) -> list[Message]:
    """Everything that a worker may say of a job: moves, callbacks, progress, commands."""
    lifecycle = LIFECYCLES[world.definition.workflow.name]
    job = world.jobs[only(world)]
    marks = (said.run_id, said.attempt, said.claim)
    found: list[Message] = [
        Beat(actor, None, None, *marks),
        Beat(actor, 5, "from the past", *marks),
    ]
    for number, to in enumerate(lifecycle.kinds):
        edge = world.definition.table[job.status].get(to)
        if to == job.status and lifecycle.outcome(to, to) in ("refused", "stays"):
            continue
        if to != job.status and (edge is None or "workflow" not in edge.by):
            continue
        body = report_of(lifecycle.reports.get(to, {}))
        report = replace(
            body, run_id=said.run_id, attempt=said.attempt, claim=said.claim, progress=5
        )
        event = Event(f"event-{number}", "digest", world.now)
        found += [Move(actor, to, report), Move(actor, to, report, event=event)]
    return found


@pytest.mark.parametrize(("workflow", "state"), WHERE)
@pytest.mark.parametrize("marked", [False, True], ids=["bare", "marked"])
def test_who_lost_the_attempt_changes_nothing(workflow: str, state: str, marked: bool) -> None:
    """With the run alone, and with the number of the claim: 409 for every kind of report, and not
    even a sign of life."""
    world = claimed(workflow, state)
    old = attempt_in(world)
    world = lost(workflow, state)
    job, new = world.jobs[only(world)], attempt_in(world)
    assert new.serial > old.serial
    said = Report(run_id=job.run_id)
    said = replace(said, claim=old.serial, attempt=old.number) if marked else said
    told = reports(world, ANNA, said)
    assert len(told) >= 6, "progress, a sign of life, and both doors for two states at least"
    for message in told:
        refused = world.tell(only(world), message)
        assert isinstance(refused, Refused), f"{message}: {refused}"
        assert refused.code == "STALE_RUN", f"{message}: {refused}"
        expected = {"run_id": job.run_id, "attempt": new.number, "claim": new.serial}
        assert {name: refused.extra[name] for name in expected} == expected
        assert world.jobs[only(world)] is job, f"{message} changed something"


@pytest.mark.parametrize(("workflow", "state"), WHERE)
def test_who_holds_the_attempt_is_heard(workflow: str, state: str) -> None:
    """The claimant, an admin, and whoever took the place of the claimant's token."""
    for actor in (BERT, ADMIN, Actor("bert", "workflow", "token-c", ("token-b",))):
        claim = attempt_in(lost(workflow, state))
        said = Report(run_id=claim.run_id, attempt=claim.number, claim=claim.serial)
        for number in range(len(reports(lost(workflow, state), actor, said))):
            world = lost(workflow, state)
            message = reports(world, actor, said)[number]
            assert not isinstance(world.tell(only(world), message), Refused), message


@pytest.mark.parametrize(("workflow", "state"), WHERE)
def test_what_a_report_says_of_its_work_is_checked(workflow: str, state: str) -> None:
    """Also when it comes from the claimant, or from an admin."""
    world = claimed(workflow, state)
    attempt = attempt_in(world)
    for actor in (ANNA, ADMIN):
        for said in (
            Report(claim=attempt.serial + 1),
            Report(attempt=attempt.number + 1),
            Report(run_id="another"),
        ):
            for message in reports(world, actor, said):
                refused = world.tell(only(world), message)
                assert isinstance(refused, Refused), f"{message}: {refused}"
                assert refused.code == "STALE_RUN", f"{message}: {refused}"


@pytest.mark.parametrize(("workflow", "state"), WHERE)
def test_an_attempt_that_nobody_claimed_is_open(workflow: str, state: str) -> None:
    """To every token of role workflow, as it always was."""
    lifecycle = LIFECYCLES[workflow]
    entered = [step for step in lifecycle.steps[state] if not isinstance(step, Take)]

    def unclaimed() -> World:
        world = World(lifecycle.definition)
        for step in entered:
            assert isinstance(take(world, step), Decision)
        if world.jobs[only(world)].status != state:
            moved = Move(ANNA, state, Report())
            assert isinstance(world.tell(only(world), moved), Decision)
        assert not attempt_in(world).claimant
        return world

    for number in range(len(reports(unclaimed(), BERT, Report()))):
        world = unclaimed()
        message = reports(world, BERT, Report())[number]
        assert not isinstance(world.tell(only(world), message), Refused), message


def test_a_callback_of_whoever_opened_the_run_is_heard() -> None:
    """An orchestrator runs the whole; a worker of another token claims one step of it."""
    world = stand("howera", "UPLOADED")
    job_id, orchestrator = only(world), Actor("olga", "workflow", "token-o")
    event = Event("begun", "digest", world.now)
    opened = Move(orchestrator, "AUDIO_EXTRACTING", Report(), event=event)
    assert isinstance(world.tell(job_id, opened), Decision)
    failed = Report(failure_code="X", failure_message="again", failed_stage="AUDIO_EXTRACTING")
    again = Move(orchestrator, "AUDIO_EXTRACTING", failed)
    assert isinstance(world.tell(job_id, again), Decision)
    world.fire(job_id, "backoff")
    assert isinstance(world.claim(job_id, ANNA), Decision)
    ready = Report(artifacts={"audio_uri": "s3://a"})
    for message in (Move(orchestrator, "AUDIO_READY", ready), Beat(orchestrator)):
        assert code(world.tell(job_id, message)) == "STALE_RUN"
    late = Event("late", "digest", world.now)
    assert code(world.tell(job_id, Move(BERT, "AUDIO_READY", ready, event=late))) == "STALE_RUN"
    said = world.tell(job_id, Move(orchestrator, "AUDIO_READY", ready, event=late))
    assert isinstance(said, Decision)


@pytest.mark.parametrize(("workflow", "state"), WHERE)
def test_its_owner_is_not_kept_from_the_job(workflow: str, state: str) -> None:
    """A person who cancels reports on nothing."""
    world = claimed(workflow, state)
    cancel = world.definition.commands.get("cancel")
    if cancel is None or state not in cancel.walks:
        return
    job = world.jobs[only(world)]
    world.jobs[only(world)] = replace(job, user_id=ADA.name)
    assert isinstance(world.tell(only(world), Do(ADA, "cancel")), Decision)


def test_final_table_and_role_are_asked_before() -> None:
    world = lost("howera", "TRANSCRIBING")
    job_id = only(world)
    old = Report(claim=1)
    assert code(world.tell(job_id, Move(ANNA, "DONE", old))) == "ILLEGAL_TRANSITION"
    assert code(world.tell(job_id, Move(ADMIN, "CANCELLED"))) == "moved"
    assert code(world.tell(job_id, Move(ANNA, "TRANSCRIPT_READY", old))) == "TERMINAL_STATE"
    assert isinstance(world.tell(job_id, Beat(ANNA, 5, claim=1)), NoOp)


def test_a_worker_delivers_by_a_command_what_it_claimed() -> None:
    """Where a command is open to role workflow, it is a report like any other."""
    for actor, expected in ((BERT, "STALE_RUN"), (ANNA, "moved"), (ADMIN, "FORBIDDEN")):
        world = World(LIFECYCLES["ss"].definition)
        job_id = world.born(params={"requirement": "Sum the sales"})
        assert code(world.do(job_id, "draft")) == "noted"
        assert code(world.claim(job_id, ANNA)) == "noted"
        assert code(world.do(job_id, "draft", actor, draft="one table")) == expected
    assert code(world.do(job_id, "draft", ADA, draft="one table")) == "moved"


def test_a_lease_ends_by_the_clock_whatever_others_say() -> None:
    world = claimed("cutx", "processing")
    job_id = only(world)
    due_at = world.jobs[job_id].timer("lease")
    assert due_at is not None
    for _ in range(3):
        world.tell(job_id, Beat(BERT, 50))
        world.tell(job_id, Claim(BERT))
    assert world.jobs[job_id].timer("lease") == due_at
    world.now = due_at.due_at
    assert isinstance(world.tell(job_id, Fired("lease", due_at.due_at)), Decision)
