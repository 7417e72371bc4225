"""A stage that awaits a callback: what is kept for it, what it is told, and what comes too late."""

from msgspec.structs import replace

from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.job import Asset, Attempt, Failure, Snapshot
from jobrunner.core.messages import Answered, Checkpoint, Ended, Keep, Recovered, Report
from jobrunner.errors import Refused
from tests.core.workshop import WORKSHOP, cutting
from tests.driving import ADA, WORKER, Said, World, varied


def shop() -> World:
    return World(varied(WORKSHOP))


def at_work(world: World) -> str:
    job_id = cutting(world)
    assert attempt_of(world, job_id).status == "running"
    return job_id


def job_of(world: World, job_id: str) -> Snapshot:
    return world.jobs[job_id]


def attempt_of(world: World, job_id: str) -> Attempt:
    attempt = world.jobs[job_id].attempt
    assert attempt is not None
    return attempt


def park(world: World, job_id: str, key: str = "k", await_s: float = 60) -> Said:
    return world.ended(job_id, "parked", awaits=key, await_s=await_s)


def answer(world: World, job_id: str, key: str = "k", value: object = 1) -> Said:
    return world.tell(job_id, Answered(WORKER, key, value))


def keep(world: World, job_id: str, name: str, value: object) -> Said:
    return world.tell(job_id, Keep(attempt_of(world, job_id).serial, name, value))


def code(said: Said) -> str:
    return said.code if isinstance(said, Refused) else type(said).__name__


def checkpoint(world: World, job_id: str, serial: int = 0, **artifacts: object) -> Said:
    serial = serial or attempt_of(world, job_id).serial
    asset = Asset(f"a-{serial}", "image", f"/assets/a-{serial}/content", "ada/j/x.png", 3, "0" * 64)
    report = Report(artifacts=artifacts, assets=(asset,))
    return world.tell(job_id, Checkpoint(serial, report))


def test_what_a_stage_made_so_far_outlives_its_attempt() -> None:
    """I-r11: the answer of a provider is the job's before anything is done with it."""
    world = shop()
    job_id = at_work(world)
    version, serial = job_of(world, job_id).version, attempt_of(world, job_id).serial
    said = checkpoint(world, job_id, provider_result={"url": "x"})
    assert isinstance(said, Decision)
    assert not said.hops
    assert [asset.asset_type for asset in said.assets] == ["image"]
    job = job_of(world, job_id)
    assert (job.version, attempt_of(world, job_id).status) == (version + 1, "running")
    world.ended(job_id, "failed", failure=Failure("NETWORK", "cut", retryable=True))
    assert job_of(world, job_id).artifacts["provider_result"].value == {"url": "x"}
    late = checkpoint(world, job_id, serial, provider_result={"url": "y"})
    assert code(late) == "NoOp"
    assert job_of(world, job_id).artifacts["provider_result"].version == 1


def test_the_same_attempt_goes_on_with_the_answer() -> None:
    world = shop()
    job_id = at_work(world)
    keep(world, job_id, "order", "ticket-1")
    before = attempt_of(world, job_id)
    park(world, job_id)
    assert job_of(world, job_id).timer("deadline") is not None
    assert job_of(world, job_id).timer("limit") is None
    assert isinstance(answer(world, job_id, value={"url": "x"}), Decision)
    job = job_of(world, job_id)
    assert (job.line_at, job.timer("deadline"), job.deadline_at) == (world.now, None, None)
    world.start(job_id)
    after = attempt_of(world, job_id)
    assert (after.serial, after.number, after.status) == (before.serial, before.number, "running")
    assert (after.kept, after.answers) == ({"order": "ticket-1"}, {"k": {"url": "x"}})


def test_an_answer_before_the_stage_has_returned_is_kept() -> None:
    world = shop()
    job_id = at_work(world)
    assert isinstance(answer(world, job_id), Decision)
    assert attempt_of(world, job_id).status == "running"
    park(world, job_id)
    assert attempt_of(world, job_id).status == "due"
    assert job_of(world, job_id).line_at is not None


def test_an_answer_twice_has_one_effect() -> None:
    world = shop()
    job_id = at_work(world)
    park(world, job_id)
    answer(world, job_id, value=1)
    writes = world.writes
    assert isinstance(answer(world, job_id, value=2), NoOp)
    assert world.writes == writes
    assert attempt_of(world, job_id).answers == {"k": 1}


def test_a_late_answer_is_refused() -> None:
    """After the deadline the attempt has failed, whoever comes then."""
    world = shop()
    job_id = at_work(world)
    park(world, job_id, await_s=5)
    world.fire(job_id, "deadline")
    before = job_of(world, job_id)
    said = answer(world, job_id)
    attempt = before.attempt
    if attempt is None:
        assert code(said) == "CALLBACK_UNEXPECTED"
        assert job_of(world, job_id) == before
    assert world.tried(job_id)[0].answers == {}


def test_an_answer_to_an_earlier_attempt_is_not_matched() -> None:
    world = shop()
    job_id = at_work(world)
    answer(world, job_id, "first", 1)
    keep(world, job_id, "order", "first")
    world.ended(job_id, "failed", Failure("NETWORK", "gone"))
    while (attempt := job_of(world, job_id).attempt) is None or attempt.status != "running":
        for timer in job_of(world, job_id).timers:
            if timer.purpose in ("backoff", "retry"):
                world.fire(job_id, timer.purpose)
                break
        world.start(job_id)
    assert (attempt.kept, attempt.answers) == ({}, {})
    park(world, job_id, "second")
    assert code(answer(world, job_id, "first", 1)) == "CALLBACK_UNEXPECTED"
    assert attempt_of(world, job_id).status == "parked"


def test_what_was_kept_survives_an_interruption() -> None:
    """The service died or was stopped: the provider's work goes on, and so does ours."""
    for message in (Recovered(), None):
        world = shop()
        job_id = at_work(world)
        keep(world, job_id, "order", "ticket-1")
        answer(world, job_id)
        serial = attempt_of(world, job_id).serial
        world.tell(job_id, message or Ended(serial, "interrupted"))
        fresh = attempt_of(world, job_id)
        assert fresh.serial > serial
        assert (fresh.kept, fresh.answers) == ({"order": "ticket-1"}, {"k": 1})


def test_nothing_is_kept_for_an_attempt_that_is_over() -> None:
    world = shop()
    job_id = at_work(world)
    serial = attempt_of(world, job_id).serial
    park(world, job_id)
    said = world.tell(job_id, Keep(serial, "late", 1))
    assert isinstance(said, NoOp)
    assert said.name == "late_result"


def test_answers_come_from_workflows() -> None:
    world = shop()
    job_id = at_work(world)
    park(world, job_id)
    assert code(world.tell(job_id, Answered(ADA, "k", 1))) == "FORBIDDEN"


def test_there_is_an_end_to_what_is_kept_unasked() -> None:
    world = shop()
    job_id = at_work(world)
    said = [code(answer(world, job_id, f"junk-{n}")) for n in range(20)]
    assert said == ["Decision"] * 16 + ["CALLBACK_UNEXPECTED"] * 4
    park(world, job_id, "wanted")
    assert code(answer(world, job_id, "wanted")) == "Decision"
    assert attempt_of(world, job_id).status == "due"


def test_log_lines_stay_with_their_attempt() -> None:
    world = shop()
    job_id = at_work(world)
    attempt = attempt_of(world, job_id)
    world.tell(job_id, Ended(attempt.serial, "parked", awaits="k", log=("one",)))
    answer(world, job_id)
    world.start(job_id)
    world.tell(job_id, replace(Ended(attempt.serial, "done"), log=("two",) * 300))
    lines = world.tried(job_id)[0].log
    assert lines == ("two",) * 200
