"""The image-generation lifecycle: creation, pick-up, its ends, review."""

from typing import Any

import msgspec
import pytest
from jobrunner_image_generation.params import ImageParams
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision
from jobrunner.core.job import Actor, Failure
from jobrunner.errors import Refused
from tests.driving import (
    ADA,
    ADMIN,
    WORKER,
    World,
    bound,
    code,
    picture,
    varied,
)
from tests.plugins.image_generation_arranged import (
    AT_REST,
    FINAL,
    LIGHTHOUSE,
    MOVES,
    REPORTS,
    STATUSES,
    completed,
    dead_letter,
    definition,
    failed,
    queued,
    rejected,
    running,
)


@pytest.fixture
def world() -> World:
    return World(definition)


def test_declaration_is_sound() -> None:
    assert check(definition) == ()


def test_states_are_the_six() -> None:
    """I1"""
    assert tuple(definition.states) == STATUSES


@pytest.mark.parametrize("to", STATUSES)
@pytest.mark.parametrize("status", STATUSES)
def test_pair(world: World, status: str, to: str) -> None:
    """I3-I13: seven pairs move; the 23 others and the 6 repeats are refused, changing nothing."""
    job_id = AT_REST[status](world)
    before = world.jobs[job_id]
    assert before.status == status
    said = world.move(job_id, to, ADMIN, **REPORTS.get(to, {}))
    if (status, to) in MOVES:
        assert code(said) == "moved"
        assert world.jobs[job_id].status == to
        return
    assert code(said) == ("TERMINAL_STATE" if status in FINAL else "ILLEGAL_TRANSITION")
    assert world.jobs[job_id] is before
    assert isinstance(said, Refused)
    assert said.extra["current_status"] == status
    assert said.extra["attempted_status"] == to
    assert said.extra["allowed_next_statuses"] == sorted(b for a, b in MOVES if a == status)


@pytest.mark.parametrize("pair", sorted(MOVES))
def test_owner_takes_no_edge_by_hand(world: World, pair: tuple[str, str]) -> None:
    """The creation is the user's (I14); every later move is somebody else's."""
    job_id = AT_REST[pair[0]](world)
    before = world.jobs[job_id]
    assert code(world.move(job_id, pair[1], ADA, **REPORTS.get(pair[1], {}))) == "FORBIDDEN"
    assert world.jobs[job_id] is before


@pytest.mark.parametrize("pair", [("failed", "queued"), ("failed", "dead_letter")])
def test_workflow_role_does_not_decide_about_retries(world: World, pair: tuple[str, str]) -> None:
    """I8 I9: the way out of `failed` is the timer's and the engine's."""
    job_id = failed(world)
    assert code(world.move(job_id, pair[1], WORKER)) == "FORBIDDEN"


def test_birth_holds_the_price_and_waits(world: World) -> None:
    """I2 I14 I18 I20: born queued, one credit reserved, not picked up in the request."""
    job = world.jobs[queued(world)]
    assert (job.status, job.version, job.started_at) == ("queued", 1, None)
    assert (world.balance(), world.held(), job.credits) == (24, 1, "held")
    assert world.logged(job.id, "job.created") == [{"job_type": "image", "credits_cost": 1}]


@pytest.mark.parametrize(
    "prompt",
    [
        "a NUDE at dusk",
        "n.u.d.e",
        "n u d e",
        "nud3",
        "nu\u216ee",
        "\uff4eude",
        "nu\u200bde",
        "_nude_",
    ],
)
def test_prompt_guard_sees_through_disguises(world: World, prompt: str) -> None:
    """I15 I19: refused with 422, and neither a job nor a ledger row exists."""
    said = world.submit(params={"prompt": prompt})
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("PROMPT_BLOCKED", 422)
    assert "nude" not in said.detail
    assert not world.jobs
    assert not world.ledger


@pytest.mark.parametrize(
    "prompt", ["denuded hills", "Scunthorpe", "a gored matador", "cla$$", "nudes1de", "go re"]
)
def test_prompt_guard_leaves_innocent_words_alone(world: World, prompt: str) -> None:
    """I15: a blocked word inside another word is another word."""
    assert code(world.submit(params={"prompt": prompt})) == "moved"


@pytest.mark.parametrize(
    ("words", "prompt", "blocked"),
    [
        (["Snuff  Film"], "a snuff-film", True),
        (["Snuff  Film"], "5nuff\n f1lm", True),
        (["Snuff  Film"], "a film about snuff", False),
        (["kill"], "K1LL", True),
        (["kill"], "ki11 bill", True),
        (["b00bs"], "boobs", True),
        (["ass"], "a$$", True),
        (["ass"], "@55", True),
        (["ass"], "the class", False),
        (["", "!!", "  "], "anything at all!!", False),
        ([], "nude", False),
    ],
)
def test_blocked_words_are_the_operators(words: list[str], prompt: str, blocked: bool) -> None:
    """I15: the list comes from the settings; phrases, digits on either side, empty entries."""
    world = World(varied(definition, settings={"blocked_words": words}))
    said = world.submit(params={"prompt": prompt})
    assert code(said) == ("PROMPT_BLOCKED" if blocked else "moved")


def test_quota_of_open_jobs(world: World) -> None:
    """I16 I19: the hundred-and-first open job is refused; one that ended makes room."""
    world = World(varied(definition, quota=replace(definition.workflow.quota, per_minute=0)), 200)
    ids = [world.born(params={"prompt": f"lighthouse {n}"}) for n in range(100)]
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("QUOTA_EXCEEDED", 429)
    assert said.extra == {"limit": 100, "current": 100}
    assert (len(world.jobs), world.held()) == (100, 100)
    world.move(ids[0], "rejected")
    assert code(world.submit(params=LIGHTHOUSE)) == "moved"


def test_quota_per_minute(world: World) -> None:
    """I16: sixty submissions a minute, and room again when the minute is over."""
    world = World(definition, 200)
    for n in range(60):
        world.born(params={"prompt": f"lighthouse {n}"})
    assert code(world.submit(params=LIGHTHOUSE)) == "QUOTA_EXCEEDED"
    world.now += 60_000
    assert code(world.submit(params=LIGHTHOUSE)) == "moved"


def test_decision_carries_the_quota_for_the_writer(world: World) -> None:
    """I16: two submissions at once are told apart inside the transaction."""
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, Decision)
    assert said.quota is not None
    assert (said.quota.open_jobs, said.quota.per_minute) == (100, 60)


def test_no_credits_no_job() -> None:
    """I18 I19: 402 with what is there and what is needed."""
    world = World(definition, balance=0)
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("INSUFFICIENT_CREDITS", 402)
    assert said.extra == {"balance": 0, "required": 1}
    assert not world.jobs


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"prompt": ""},
        {"prompt": " \n"},
        {"prompt": "x" * 4001},
        {"prompt": 7},
        {"prompt": "x", "size": "1024x"},
        {"prompt": "x", "size": "64x64\n"},
        {"prompt": "x", "seed": -1},
        {"prompt": "x", "seed": True},
        {"prompt": "x", "options": {"nested": {}}},
        {"prompt": "x", "colour": "red"},
    ],
)
def test_params_that_are_not_taken(params: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(params, ImageParams)


@pytest.mark.parametrize("how", ["claim", "callback"])
def test_pick_up_stamps_and_beats(world: World, how: str) -> None:
    """I3 I20-I22: started_at, a first sign of life, an attempt, the lock."""
    job_id = queued(world)
    said = world.claim(job_id) if how == "claim" else world.callback(job_id, "e1", "running")
    assert code(said) == "moved"
    job = world.jobs[job_id]
    assert job.started_at == job.heartbeat_at == world.now
    assert (job.attempts, job.retry_count) == (1, 0)
    assert job.lock("job") is not None
    assert code(world.claim(job_id)) == "JOB_ALREADY_RUNNING"


@pytest.mark.parametrize("how", ["claim", "callback", "start"])
def test_prompt_is_read_again_at_pick_up(how: str) -> None:
    """I4 I35 I36: a word that was listed meanwhile sends the job to `rejected`, the credit is
    forfeit and the audit says SAFE_BLOCK, preflight."""
    world = World(bound(definition) if how == "start" else definition)
    job_id = queued(world)
    world.definition = varied(world.definition, settings={"blocked_words": ["lighthouse"]})
    if how == "start":
        world.start(job_id)
    else:
        world.claim(job_id) if how == "claim" else world.callback(job_id, "e1", "running")
    job = world.jobs[job_id]
    assert world.path(job_id) == ["queued", "rejected"]
    assert (job.failure_code, job.credits, job.attempts) == ("PROMPT_BLOCKED", "captured", 0)
    assert (world.balance(), world.held()) == (24, 0)
    record = world.audited(job_id)[0]
    assert (record.event, record.fields) == ("SAFE_BLOCK", {"phase": "preflight"})


def test_preflight_rejection_by_callback(world: World) -> None:
    """I4 I35 I36"""
    job_id = queued(world)
    assert code(world.callback(job_id, "e1", "rejected")) == "moved"
    assert world.money(job_id) == ["hold", "capture"]
    assert [one.event for one in world.audited(job_id)] == ["SAFE_BLOCK"]


def test_success_needs_its_picture(world: World) -> None:
    """I5 I24-I28: no `completed` without an asset; with it, captured and at 100 %."""
    job_id = running(world)
    before = world.jobs[job_id]
    said = world.callback(job_id, "e1", "completed", result={"url": "https://example.org/x.png"})
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("RESULT_MISSING", 409)
    assert world.jobs[job_id] is before
    assert code(world.callback(job_id, "e1", "completed", assets=(picture(),))) == "moved"
    job = world.jobs[job_id]
    assert (job.status, job.progress, job.credits) == ("completed", 100, "captured")
    assert job.completed_at == world.now
    assert (world.balance(), world.held()) == (24, 0)
    assert not job.locks
    assert not job.timers
    assert world.logged(job_id, "job.completed")


def test_stage_delivers_asset_and_status_in_one_decision() -> None:
    """I23-I28: what the stage brings is stored with the very hop that shows `completed`."""
    world = World(bound(definition))
    job_id = queued(world)
    world.start(job_id)
    said = world.ended(job_id, "done", assets=(picture(),))
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == ["completed"]
    assert [asset.id for asset in said.assets] == ["asset-one"]


def test_stage_without_a_picture_fails_for_good() -> None:
    """I24 I33: `done` with nothing to show is a bad answer, and those are not repeated."""
    world = World(bound(definition))
    job_id = queued(world)
    world.start(job_id)
    world.ended(job_id, "done")
    assert world.path(job_id) == ["queued", "running", "failed", "dead_letter"]
    assert world.jobs[job_id].failure_code == "RESULT_MISSING"


@pytest.mark.parametrize("how", ["callback", "stage"])
def test_safety_filter_forfeits(how: str) -> None:
    """I7 I34-I36: rejected, not refunded, and a durable record of it."""
    world = World(definition if how == "callback" else bound(definition))
    job_id = queued(world)
    if how == "callback":
        world.claim(job_id)
        world.callback(job_id, "e1", "rejected", failure_message="unsafe")
    else:
        world.start(job_id)
        world.ended(job_id, "rejected", Failure("NSFW", "unsafe", retryable=False))
    job = world.jobs[job_id]
    assert (job.status, job.credits, job.failure_message) == ("rejected", "captured", "unsafe")
    assert (world.balance(), world.held()) == (24, 0)
    record = world.audited(job_id)[0]
    assert (record.event, record.fields) == ("SAFE_BLOCK", {"phase": "provider"})


def test_finals_stay(world: World) -> None:
    """I10-I12: no message leads out of an end, nor does time."""
    for arrange in (completed, rejected, dead_letter):
        world = World(definition)
        job_id = arrange(world)
        assert not world.jobs[job_id].timers
        assert code(world.claim(job_id)) == "TERMINAL_STATE"
        assert code(world.callback(job_id, "late", "running")) == "TERMINAL_STATE"


@pytest.mark.parametrize("status", STATUSES)
def test_annotating_moves_nothing(world: World, status: str) -> None:
    """I12 I41: a remark in any state, kept in the audit, for admins only."""
    job_id = AT_REST[status](world)
    hops = len(world.hops)
    said = world.do(job_id, "annotate", ADMIN, note="looked at")
    assert isinstance(said, Decision)
    assert (said.after.status, said.status) == (status, 200)
    assert len(world.hops) == hops
    record = world.audited(job_id)[-1]
    assert (record.actor, record.fields["note"]) == ("root", "looked at")
    assert code(world.do(job_id, "annotate", ADA, note="mine")) == "FORBIDDEN"


@pytest.mark.parametrize("command", ["cancel", "retry", "run"])
def test_no_other_command(world: World, command: str) -> None:
    job_id = queued(world)
    assert code(world.do(job_id, command, ADA)) == "UNKNOWN_COMMAND"


def test_stranger_finds_nothing(world: World) -> None:
    job_id = queued(world)
    said = world.do(job_id, "annotate", Actor("eve", "user"), note="hi")
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("NOT_FOUND", 404)
