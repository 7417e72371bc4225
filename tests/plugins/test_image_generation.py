"""The image-generation lifecycle, shown in the pure core: no clock, no store, no HTTP."""

from typing import Any

import msgspec
import pytest
from jobrunner_image_generation import definition as shipped
from jobrunner_image_generation.params import ImageParams
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.job import Actor, Failure
from jobrunner.errors import Refused
from tests.driving import (
    ADA,
    ADMIN,
    EVE,
    NOON,
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

STATUSES = ("queued", "running", "failed", "completed", "rejected", "dead_letter")
FINAL = ("completed", "rejected", "dead_letter")
MOVES = {
    ("queued", "running"),
    ("queued", "rejected"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "rejected"),
    ("failed", "queued"),
    ("failed", "dead_letter"),
}
LIGHTHOUSE = {"prompt": "a lighthouse at dusk"}
TIMEOUT = Failure("STAGE_TIMEOUT", "the provider did not answer")
BAD_REQUEST = Failure("PROVIDER_ERROR", "the provider says 400", retryable=False)


def queued(world: World) -> str:
    return world.born(params=LIGHTHOUSE)


def running(world: World) -> str:
    job_id = queued(world)
    assert code(world.claim(job_id)) == "moved"
    return job_id


def failed(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "failed", failure_message="the provider says 500")
    return job_id


def completed(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "completed", assets=(picture(),))
    return job_id


def rejected(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "rejected")
    return job_id


def dead_letter(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "failed", failure_message="the provider says 400", retryable=False)
    return job_id


AT_REST: dict[str, Arrange] = {
    "queued": queued,
    "running": running,
    "failed": failed,
    "completed": completed,
    "rejected": rejected,
    "dead_letter": dead_letter,
}
REPORTS: dict[str, dict[str, Any]] = {
    "completed": {"assets": (picture(),)},
    "failed": {"failure_message": "by hand"},
}


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


# ---------------------------------------------------------------- creation


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


# ---------------------------------------------------------------- pick-up


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


# ---------------------------------------------------------------- the ends


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


# ---------------------------------------------------------------- retries


def fail_once(world: World, job_id: str, failure: Failure = TIMEOUT) -> None:
    """One run that ends badly, in the house."""
    world.start(job_id)
    world.ended(job_id, "failed", failure)


def test_round_trip_counts_then_compares() -> None:
    """I6 I8 I29-I33: three runs in all. Two failures come back from `failed` after 2 s and 4 s,
    the third goes on to `dead_letter` in its own commit, and only then is the credit released."""
    world = World(bound(definition))
    job_id = queued(world)
    for retry_count, wait_ms in ((1, 2000), (2, 4000)):
        fail_once(world, job_id)
        job = world.jobs[job_id]
        assert (job.status, job.retry_count) == ("failed", retry_count)
        assert job.next_attempt_at == world.now + wait_ms
        assert (world.balance(), world.held(), job.credits) == (24, 1, "held")
        assert job.failure_message == TIMEOUT.message
        assert code(world.fire(job_id, "retry")) == "moved"
        job = world.jobs[job_id]
        assert (job.status, job.next_attempt_at, job.timers) == ("queued", None, ())
    version = world.jobs[job_id].version
    fail_once(world, job_id)
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.version) == ("dead_letter", 3, version + 2)
    assert [hop.to_status for _, at, hop in world.hops if at == job.version] == [
        "failed",
        "dead_letter",
    ]
    assert world.path(job_id).count("running") == 3
    assert world.money(job_id) == ["hold", "release"]
    assert (world.balance(), world.held()) == (25, 0)


def test_last_hop_says_why() -> None:
    """I33 I41: `exhausted` is on the review list."""
    world = World(bound(definition))
    job_id = queued(world)
    for _ in range(2):
        fail_once(world, job_id)
        world.fire(job_id, "retry")
    fail_once(world, job_id)
    assert world.hops[-1][2].reason == "exhausted"
    ((_, letter),) = world.dead_letters
    assert (letter.reason, letter.hidden) == ("exhausted", False)
    assert letter.failure.code == "STAGE_TIMEOUT"


@pytest.mark.parametrize("how", ["stage", "callback"])
def test_permanent_failure_skips_the_remaining_runs(how: str) -> None:
    """I9 I33: two hops in one commit, the credit back."""
    world = World(definition if how == "callback" else bound(definition))
    job_id = queued(world)
    if how == "stage":
        fail_once(world, job_id, BAD_REQUEST)
    else:
        world.claim(job_id)
        world.callback(job_id, "e1", "failed", failure_message="says 400", retryable=False)
    assert world.path(job_id) == ["queued", "running", "failed", "dead_letter"]
    assert world.hops[-1][2].reason == "permanent"
    assert {at for _, at, _ in world.hops[-2:]} == {world.jobs[job_id].version}
    assert (world.balance(), world.held()) == (25, 0)


@pytest.mark.parametrize(
    ("failures", "jitter", "expected_ms"),
    [(1, 0.5, 2000), (1, 0.0, 1800), (2, 0.5, 4000), (7, 0.5, 60_000), (7, 1.0, 66_000)],
)
def test_backoff_doubles_up_to_a_minute(failures: int, jitter: float, expected_ms: int) -> None:
    """I31: min(60 s, 2 s doubled) and a tenth up or down."""
    states = tuple(
        replace(state, stage={"*": "test.stage"}, retry=replace(state.retry, max=99))
        if state.retry
        else state
        for state in definition.workflow.states
    )
    world = World(varied(definition, states=states))
    world.jitter = jitter
    job_id = queued(world)
    for n in range(failures):
        if n:
            world.fire(job_id, "retry")
        fail_once(world, job_id)
    job = world.jobs[job_id]
    assert job.next_attempt_at is not None
    assert job.next_attempt_at - world.now == expected_ms


def test_provider_may_ask_for_more_time() -> None:
    """I31: a Retry-After beats a shorter backoff."""
    world = World(bound(definition))
    job_id = queued(world)
    fail_once(world, job_id, Failure("RATE_LIMITED", "slow down", retry_after_s=90))
    assert world.jobs[job_id].next_attempt_at == world.now + 90_000


def test_stage_has_two_minutes() -> None:
    """I29: a run that takes longer has failed, retryably."""
    world = World(bound(definition))
    job_id = queued(world)
    world.start(job_id)
    began = world.now
    world.fire(job_id, "limit")
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.failure_code) == ("failed", 1, "STAGE_TIMEOUT")
    assert world.now - began >= 120_000


@pytest.mark.parametrize("purpose", ["deadline", "lease"])
def test_clocks_of_an_outside_worker_are_failures(world: World, purpose: str) -> None:
    """I29: whoever claimed it and falls silent, or takes too long, has failed retryably."""
    job_id = running(world)
    world.fire(job_id, purpose)
    job = world.jobs[job_id]
    assert (job.status, job.retry_count) == ("failed", 1)
    assert job.failure_code in ("STAGE_TIMEOUT", "HEARTBEAT_LOST")
    assert job.next_attempt_at is not None


def test_failure_reports_need_a_message(world: World) -> None:
    """I6: 400, nothing changed."""
    job_id = running(world)
    said = world.callback(job_id, "e1", "failed")
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)


def test_operator_takes_both_ways_out_of_failed(world: World) -> None:
    """I8 I9: `now` and `give up`, with the timer gone and the money right."""
    now, never = failed(world), failed_other(world)
    assert code(world.move(now, "queued", ADMIN)) == "moved"
    assert world.jobs[now].timers == ()
    assert world.money(now) == ["hold"]
    assert code(world.move(never, "dead_letter", ADMIN)) == "moved"
    assert world.money(never) == ["hold", "release"]
    assert world.jobs[never].failure_message == "the provider says 500"


def failed_other(world: World) -> str:
    job_id = world.born(params={"prompt": "another lighthouse"})
    world.claim(job_id)
    world.callback(job_id, "e1", "failed", failure_message="the provider says 500")
    return job_id


# ---------------------------------------------------------------- idempotency


def test_same_minute_is_the_same_job(world: World) -> None:
    """I17 I37 I38 I40: a repeat within the minute, defaults spelled out or not, costs nothing."""
    job_id = queued(world)
    again = world.submit(params={**LIGHTHOUSE, "size": "1024x1024", "seed": None})
    assert isinstance(again, NoOp)
    assert (again.name, again.snapshot.id) == ("replayed", job_id)
    assert again.answer == {"replayed": True}
    assert (world.balance(), len(world.jobs)) == (24, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"params": {"prompt": "a lighthouse at dusk "}},
        {"params": {**LIGHTHOUSE, "seed": 7}},
        {"params": LIGHTHOUSE, "actor": EVE},
        {"params": LIGHTHOUSE, "later": 60_000},
    ],
    ids=["prompt", "params", "user", "minute"],
)
def test_each_part_of_the_key_counts(world: World, other: dict[str, Any]) -> None:
    """I37: user, prompt as sent, params, minute."""
    queued(world)
    world.now += other.pop("later", 0)
    assert code(world.submit(**other)) == "moved"
    assert len(world.jobs) == 2


def test_the_minute_is_floored(world: World) -> None:
    """I37: first and last moment of a minute are one, the next moment is another."""
    world.now = NOON - 10
    first = queued(world)
    world.now = NOON + 59_980
    assert code(world.submit(params=LIGHTHOUSE)) == "replayed"
    world.now = NOON + 59_990
    second = world.born(params=LIGHTHOUSE)
    assert first != second


def test_order_of_params_does_not_count(world: World) -> None:
    """I37: keys are sorted before they are hashed."""
    world.born(params={**LIGHTHOUSE, "options": {"a": 1, "b": 2}})
    again = world.submit(params={"options": {"b": 2, "a": 1}, **LIGHTHOUSE})
    assert code(again) == "replayed"


@pytest.mark.parametrize("status", ["queued", "running", "completed", "rejected", "dead_letter"])
def test_known_key_in_every_status_but_failed(world: World, status: str) -> None:
    """I38"""
    job_id = AT_REST[status](world)
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id


def test_key_comes_before_the_other_guards() -> None:
    """I17 I40: the repeat of the submission that took the last credit gets its job, also under
    drain and when its prompt would no longer be taken."""
    world = World(definition, balance=1)
    job_id = queued(world)
    world.definition = varied(definition, settings={"blocked_words": ["lighthouse"]})
    said = world.submit(params=LIGHTHOUSE, draining=True, overloaded=True)
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id
    assert code(world.submit(params={"prompt": "other"}, draining=True)) == "DRAINING"


def test_failed_job_is_superseded() -> None:
    """I39 I40: with one credit in all, the old job's is released before the new one is held; the
    old job ends, its timer is gone, and the key leads to the new job from then on."""
    world = World(definition, balance=1)
    old = failed(world)
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, Decision)
    (ended,) = said.also
    assert (ended.after.id, ended.after.status) == (old, "dead_letter")
    assert ended.hops[0].reason == "superseded"
    assert not ended.after.timers
    assert world.money(old) == ["hold", "release"]
    assert world.money(said.after.id) == ["hold"]
    assert (world.balance(), world.held()) == (0, 1)
    ((_, letter),) = world.dead_letters
    assert (letter.reason, letter.hidden) == ("superseded", True)
    assert [row.takes_from for row in said.keys] == [old]
    again = world.submit(params=LIGHTHOUSE)
    assert isinstance(again, NoOp)
    assert again.snapshot.id == said.after.id


def test_refused_successor_leaves_the_old_job_alone() -> None:
    """I19 I39: when the new submission is refused, nothing of the old one has moved."""
    world = World(definition)
    old = failed(world)
    before = world.jobs[old]
    world.definition = varied(definition, settings={"blocked_words": ["lighthouse"]})
    assert code(world.submit(params=LIGHTHOUSE)) == "PROMPT_BLOCKED"
    assert world.jobs[old] is before
    assert world.money(old) == ["hold"]


def test_client_key_instead_of_the_derived_one(world: World) -> None:
    """I37 I38: with a key of its own a client decides what is the same; another body under it is
    still the old job, and said to be another."""
    first = world.born(params=LIGHTHOUSE, key="k1")
    second = world.born(params=LIGHTHOUSE, key="k2")
    third = world.born(params=LIGHTHOUSE)
    assert len({first, second, third}) == 3
    world.now += 3_600_000
    assert code(world.submit(params=LIGHTHOUSE, key="k1")) == "replayed"
    other = world.submit(params={"prompt": "something else"}, key="k1")
    assert isinstance(other, NoOp)
    assert other.snapshot.id == first
    assert other.answer["idempotency_mismatch"] is True
    assert code(world.submit(params=LIGHTHOUSE, key="k1", actor=EVE)) == "moved"


def test_key_parts_are_stored_readably(world: World) -> None:
    """I37: what the key was made of can be read and compared."""
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, Decision)
    parts = msgspec.json.decode(said.keys[0].parts)
    others: dict[str, Any] = {"model": "default", "options": {}, "seed": None, "size": "1024x1024"}
    assert parts[-5:] == [
        "image-generation/1",
        "ada",
        LIGHTHOUSE["prompt"],
        others,
        NOON // 60_000,
    ]


# ---------------------------------------------------------------- review


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
