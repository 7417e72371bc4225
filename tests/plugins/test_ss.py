"""The ss lifecycle: the table of its edges, commands from everywhere, drafts and their versions."""

from typing import Any

import msgspec
import pytest
from jobrunner_ss.params import Confirm, Draft, SsParams
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.job import Actor, Failure
from jobrunner.core.messages import Do, Edit, Move
from tests.driving import ADA, ADMIN, EVE, WORKER, World, bound, code
from tests.plugins.ss_arranged import (
    CORRUPT,
    MOVES,
    REPORTS,
    STATUSES,
    TIMEOUT,
    WORDS,
    answer,
    at,
    created,
    definition,
    draft_ready,
    failed,
    refused,
)


@pytest.fixture
def world() -> World:
    return World(definition)


def test_declaration_is_sound() -> None:
    assert check(definition) == ()
    assert check(bound(definition)) == ()


def test_states_are_the_seven() -> None:
    """S1"""
    assert tuple(definition.states) == STATUSES


@pytest.mark.parametrize("to", STATUSES)
@pytest.mark.parametrize("status", STATUSES)
def test_pair(world: World, status: str, to: str) -> None:
    """S2-S9 S15 S19 S23: seven pairs move, seven repeats succeed without a write, the other 35 are
    refused with both states named, and nothing changes."""
    before = at(world, status)
    said = world.move(before.id, to, ADMIN, **REPORTS.get(to, {}))
    if (status, to) in MOVES:
        assert code(said) == "moved"
        assert world.jobs[before.id].status == to
        assert world.jobs[before.id].version == before.version + 1
        return
    assert world.jobs[before.id] is before
    if status == to:
        assert code(said) == "satisfied"
        assert answer(said)["replayed"] is True
        return
    told = refused(said)
    assert (told.code, told.status) == (
        "TERMINAL_STATE" if status == "succeeded" else "ILLEGAL_TRANSITION",
        409,
    )
    assert told.extra["current_status"] == status
    assert told.extra["attempted_status"] == to
    assert told.extra["allowed_next_statuses"] == sorted(b for a, b in MOVES if a == status)


BY_OWNER = {
    ("created", "draft_ready"),
    ("draft_ready", "confirmed"),
    ("confirmed", "queued"),
    ("failed", "queued"),
}
BY_WORKER = {
    ("created", "draft_ready"),
    ("queued", "running"),
    ("running", "succeeded"),
    ("running", "failed"),
}


@pytest.mark.parametrize("pair", sorted(MOVES))
@pytest.mark.parametrize(("actor", "mine"), [(ADA, BY_OWNER), (WORKER, BY_WORKER)])
def test_who_may_take_an_edge(
    world: World, actor: Actor, mine: set[tuple[str, str]], pair: tuple[str, str]
) -> None:
    """S8 S20 S-r13: agreeing and retrying are a person's, working is the worker's."""
    before = at(world, pair[0])
    said = world.move(before.id, pair[1], actor, **REPORTS.get(pair[1], {}))
    assert code(said) == ("moved" if pair in mine else "FORBIDDEN")
    assert (world.jobs[before.id] is before) == (pair not in mine)


@pytest.mark.parametrize("status", STATUSES)
def test_strangers_see_nothing(world: World, status: str) -> None:
    job = at(world, status)
    for command in ("draft", "freeze-plan", "confirm", "run", "retry"):
        said = world.do(job.id, command, EVE, confirmed=True, draft="mine")
        assert (refused(said).code, refused(said).status) == ("NOT_FOUND", 404)
    assert world.jobs[job.id] is job


LOCKED = "JOB_LOCKED"
ILLEGAL = "ILLEGAL_TRANSITION"
TERMINAL = "TERMINAL_STATE"
OUTCOMES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    # created, draft_ready, confirmed, queued, running, succeeded, failed
    "draft": (
        {"draft": "another"},
        ("draft_ready", "noted", LOCKED, LOCKED, LOCKED, LOCKED, LOCKED),
    ),
    "freeze-plan": (
        {"answers": {"year": 1}},
        (
            "PLAN_FREEZE_NOT_ALLOWED",
            "noted",
            "PLAN_ALREADY_FROZEN_CONFLICT",
            "PLAN_FREEZE_NOT_ALLOWED",
            "PLAN_FREEZE_NOT_ALLOWED",
            "PLAN_FREEZE_NOT_ALLOWED",
            "PLAN_FREEZE_NOT_ALLOWED",
        ),
    ),
    "confirm": (
        {"confirmed": True},
        (ILLEGAL, "queued", "queued", "satisfied", "satisfied", "satisfied", ILLEGAL),
    ),
    "run": (
        {},
        (ILLEGAL, "queued", "queued", "satisfied", "satisfied", "satisfied", "queued"),
    ),
    "retry": ({}, (ILLEGAL, ILLEGAL, ILLEGAL, "satisfied", "satisfied", TERMINAL, "queued")),
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("command", OUTCOMES)
def test_command(world: World, command: str, status: str) -> None:
    """S3 S4 S8 S18 S22 S23 S33: what each command does from each state."""
    fields, outcomes = OUTCOMES[command]
    expected = outcomes[STATUSES.index(status)]
    before = at(world, status)
    said = world.do(before.id, command, **fields)
    job = world.jobs[before.id]
    if expected in STATUSES:
        assert (code(said), job.status) == ("moved", expected)
        assert job.version == before.version + 1
    elif expected == "noted":
        assert (code(said), job.status, job.version) == ("noted", status, before.version + 1)
    else:
        assert code(said) == expected
        assert job is before


@pytest.mark.parametrize("command", ["cancel", "annotate"])
def test_commands_that_are_not_there(world: World, command: str) -> None:
    said = world.do(created(world), command)
    assert (refused(said).code, refused(said).status) == ("UNKNOWN_COMMAND", 404)


@pytest.mark.parametrize(
    ("command", "who"),
    [
        ("draft", ADMIN),
        ("freeze-plan", ADMIN),
        ("confirm", ADMIN),
        ("confirm", WORKER),
        ("run", WORKER),
        ("retry", WORKER),
    ],
)
def test_roles_of_commands(world: World, command: str, who: Any) -> None:
    """Drafting is the owner's and the worker's, agreeing the owner's alone."""
    job = at(world, "draft_ready")
    assert code(world.do(job.id, command, who, confirmed=True, draft="x")) == "FORBIDDEN"
    assert world.jobs[job.id] is job


def test_admin_runs_and_retries(world: World) -> None:
    """S8 S32: an admin may put a failed job in line as its owner may, audited."""
    job_id = failed(world)
    assert code(world.do(job_id, "retry", ADMIN)) == "moved"
    assert [record.event for record in world.audited(job_id)] == ["job.retry"]
    assert definition.commands["retry"].aliases == ("/api/admin/jobs/{id}/retry",)


def test_draft_and_move_are_one_commit(world: World) -> None:
    """S2 S28: the draft is stored with the very hop that shows `draft_ready`."""
    job_id = created(world)
    said = world.do(job_id, "draft", draft={"text": "one table"})
    assert isinstance(said, Decision)
    assert [artifact.name for artifact in said.artifacts] == ["draft"]
    assert [hop.to_status for hop in said.hops] == ["draft_ready"]


@pytest.mark.parametrize("how", [ADMIN, ADA, WORKER])
def test_no_move_without_a_draft(world: World, how: Any) -> None:
    """S20-S23 S28: the precondition is checked before anything is written."""
    job = at(world, "created")
    said = world.move(job.id, "draft_ready", how)
    assert (refused(said).code, refused(said).status) == ("DRAFT_MISSING", 409)
    assert world.jobs[job.id] is job


def test_equal_draft_is_a_repeat(world: World) -> None:
    """S18 S19: the same content again is no new version of the draft, nor of the job."""
    job = at(world, "draft_ready")
    assert code(world.do(job.id, "draft", draft="one table")) == "replayed"
    assert world.jobs[job.id] is job
    assert code(world.do(job.id, "draft", draft="two tables")) == "noted"
    assert world.jobs[job.id].artifacts["draft"].version == 2


def test_frozen_plan_locks_its_draft(world: World) -> None:
    """S-r10: neither the command, nor an edit, nor a move in passing changes what is covered."""
    job_id = draft_ready(world)
    world.do(job_id, "freeze-plan")
    job = world.jobs[job_id]
    assert code(world.do(job_id, "draft", draft="two tables")) == "JOB_LOCKED"
    assert code(world.do(job_id, "draft", draft="one table")) == "replayed"
    assert code(world.tell(job_id, Edit(ADA, "draft", "two tables"))) == "JOB_LOCKED"
    said = world.move(job_id, "confirmed", ADA, artifacts={"draft": "two tables"})
    assert code(said) == "JOB_LOCKED"
    said = world.move(job_id, "confirmed", ADA, artifacts={"plan": {"plan_id": "mine"}})
    assert code(said) == "VALIDATION_ERROR"
    assert world.jobs[job_id] is job


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("created", "moved"), ("draft_ready", "noted"), *((one, LOCKED) for one in STATUSES[2:])],
)
def test_edit_of_the_draft(world: World, status: str, outcome: str) -> None:
    """S28 S-r11: an edit may bring the draft, and is locked out from `confirmed` on."""
    job = at(world, status)
    assert code(world.tell(job.id, Edit(ADA, "draft", "edited"))) == outcome
    assert (world.jobs[job.id] is job) == (outcome == LOCKED)


def test_edit_of_an_older_draft(world: World) -> None:
    """S25 S27"""
    job_id = draft_ready(world)
    world.do(job_id, "draft", draft="two tables")
    said = refused(world.tell(job_id, Edit(ADA, "draft", "mine", base_version=1)))
    assert said.code == "ARTIFACT_VERSION_CONFLICT"
    assert said.extra == {"name": "draft", "base_version": 1, "current_version": 2}


def test_drafting_is_asked_for_once(world: World) -> None:
    """S18: without a draft one is to be written; asking again starts nothing."""
    job_id = created(world)
    said = world.do(job_id, "draft")
    assert isinstance(said, Decision)
    assert (said.status, code(said), world.jobs[job_id].status) == (202, "noted", "created")
    job = world.jobs[job_id]
    assert job.attempt is not None
    assert (job.attempt.state, job.attempt.status) == ("created", "due")
    assert code(world.do(job_id, "draft")) == "replayed"
    assert world.jobs[job_id] is job
    assert code(world.callback(job_id, "e1", "draft_ready", artifacts={"draft": "one"})) == "moved"
    assert world.jobs[job_id].attempt is None
    assert code(world.do(job_id, "draft")) == "replayed"


def drafting() -> World:
    """With a stage in the house that writes drafts."""
    states = tuple(
        replace(state, on_demand="test.draft") if state.name == "created" else state
        for state in definition.workflow.states
    )
    return World(bound(definition, states=states))


def test_drafting_stage_moves_the_job() -> None:
    """S2 S28: what the stage wrote is stored with the hop."""
    world = drafting()
    job_id = created(world)
    world.do(job_id, "draft")
    world.start(job_id)
    assert code(world.ended(job_id, "done", artifacts={"draft": "one table"})) == "moved"
    assert world.jobs[job_id].status == "draft_ready"


@pytest.mark.parametrize("failure", [TIMEOUT, CORRUPT])
def test_failed_drafting_leaves_the_job(failure: Failure) -> None:
    """S23 S35: three tries, or one that cannot be repeated; then the job waits where it was, and
    drafting can be asked for again."""
    world = drafting()
    job_id = created(world)
    world.do(job_id, "draft")
    tries = 3 if failure.retryable else 1
    for count in range(tries):
        if count:
            world.fire(job_id, "backoff")
        world.start(job_id)
        world.ended(job_id, "failed", failure)
    job = world.jobs[job_id]
    assert (job.status, job.attempt, job.attempts) == ("created", None, tries)
    assert code(world.do(job_id, "draft")) == "noted"


def test_drafting_has_five_minutes() -> None:
    """A try that takes longer is over; after the third the job waits where it was."""
    world = drafting()
    job_id = created(world)
    world.do(job_id, "draft")
    for count in range(3):
        if count:
            world.fire(job_id, "backoff")
        world.start(job_id)
        began = world.now
        world.fire(job_id, "limit")
        assert 300_000 <= world.now - began < 400_000
    failure = world.tried(job_id)[-1].failure
    assert failure is not None
    assert failure.code == "STAGE_TIMEOUT"
    job = world.jobs[job_id]
    assert (job.status, job.attempt) == ("created", None)
    assert code(world.do(job_id, "draft")) == "noted"


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("command", OUTCOMES)
def test_stale_version_is_a_conflict(world: World, command: str, status: str) -> None:
    """S24 S25 S-r6: said before anything else, also where the goal is met."""
    job = at(world, status)
    fields = {"confirmed": status != "failed", "draft": "one table"}
    said = refused(world.tell(job.id, Do(ADA, command, fields, expected_version=99)))
    assert (said.code, said.status) == ("JOB_VERSION_CONFLICT", 409)
    assert said.extra["current_version"] == job.version
    assert world.jobs[job.id] is job


def test_stale_version_of_a_repeat(world: World) -> None:
    """S19 S25 S-r6: a move to the status that the job has is checked for its version first."""
    job = at(world, "draft_ready")
    said = refused(world.tell(job.id, Move(ADA, "draft_ready", expected_version=1)))
    assert said.code == "JOB_VERSION_CONFLICT"
    assert said.extra["current_status"] == "draft_ready"


def test_two_clients_one_winner(world: World) -> None:
    """S26 S27: with the version they saw, the loser hears of the conflict; without, it gets the
    state that the winner made."""
    job = at(world, "draft_ready")
    confirm = Do(ADA, "confirm", {"confirmed": True}, expected_version=job.version)
    assert code(world.tell(job.id, confirm)) == "moved"
    assert code(world.tell(job.id, confirm)) == "JOB_VERSION_CONFLICT"
    assert code(world.do(job.id, "confirm", confirmed=True)) == "satisfied"
    assert world.path(job.id).count("queued") == 1


def test_version_counts_commits(world: World) -> None:
    """S24 S37: it begins at 1 and rises by one with each, however many hops."""
    job_id = created(world)
    assert world.jobs[job_id].version == 1
    world.do(job_id, "draft", draft="one")
    assert world.jobs[job_id].version == 2
    world.do(job_id, "confirm", confirmed=True)
    assert world.jobs[job_id].version == 3
    world.claim(job_id)
    assert world.jobs[job_id].version == 4
    world.callback(job_id, "e1", "succeeded")
    assert world.jobs[job_id].version == 5


def test_same_request_is_the_same_job(world: World) -> None:
    """S10 S11 S13 S18: white space does not tell two requirements apart."""
    job_id = world.born(params=WORDS)
    said = world.submit(
        params={"requirement": "  Sum the\tsales\n by   region ", "inputs": {"fingerprint": "f1"}}
    )
    assert code(said) == "replayed"
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id
    assert len(world.jobs) == 1


@pytest.mark.parametrize(
    "params",
    [
        {**WORDS, "requirement": "sum the sales by region"},
        {**WORDS, "inputs": {"fingerprint": "f2"}},
        {**WORDS, "plan_revision": "2"},
        {"requirement": "f1", "inputs": {"fingerprint": "Sum the sales by region"}},
        {"requirement": WORDS["requirement"]},
        {},
    ],
)
def test_other_requests_are_other_jobs(world: World, params: dict[str, Any]) -> None:
    """S10-S12: each part tells two apart, and no two parts can be mistaken for each other."""
    world.born(params=WORDS)
    assert code(world.submit(params=params)) == "moved"


@pytest.mark.parametrize(
    "params",
    [
        {"inputs": None, "requirement": None, "plan_revision": None},
        {"inputs": {}, "requirement": "", "plan_revision": ""},
        {"inputs": {"fingerprint": ""}, "requirement": " \n"},
        {"answers": {"year": 2024}},
    ],
)
def test_missing_parts_count_as_empty(world: World, params: dict[str, Any]) -> None:
    """S10-S12"""
    world.born()
    assert code(world.submit(params=params)) == "replayed"


@pytest.mark.parametrize("status", STATUSES)
def test_key_is_never_free(world: World, status: str) -> None:
    """S18 S-r9: the old job in every state; a new revision is new work."""
    job = at(world, status)
    said = world.submit(params=WORDS)
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job.id
    assert code(world.submit(params={**WORDS, "plan_revision": "2"})) == "moved"


def test_keys_belong_to_their_user(world: World) -> None:
    """S-r8"""
    world.born(params=WORDS)
    assert code(world.submit(params=WORDS, actor=EVE)) == "moved"


def test_client_key_is_added(world: World) -> None:
    """S10-S12: a key of the client's own leads to the job too, and replaces nothing."""
    world.born(params=WORDS, key="mine")
    assert code(world.submit(params=WORDS)) == "replayed"
    assert code(world.submit(params=WORDS, key="other")) == "replayed"
    assert code(world.submit(params={"requirement": "else"}, key="mine")) == "replayed"


@pytest.mark.parametrize(
    ("struct", "body"),
    [
        (SsParams, {"requirement": 7}),
        (SsParams, {"fingerprint": "f1"}),
        (SsParams, {"inputs": {"print": "f1"}}),
        (SsParams, {"answers": {"": 1}}),
        (Draft, {"draft": ""}),
        (Draft, {"draft": 7}),
        (Confirm, {}),
        (Confirm, {"confirmed": "yes"}),
    ],
)
def test_bodies_that_are_not_taken(struct: type, body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, struct)
